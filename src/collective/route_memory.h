// Route memory: which routes keep it, and how long it is valid. The same for host and device.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "neuron_fabric/all_reduce.h"

namespace nf {

// Whether `codec` is powersgd:R, which is no codec but sums low-rank factors.
bool is_low_rank(std::string_view codec);
// Whether a route keeps memory from call to call: powersgd, error feedback and RMS histories do.
// False if there is no such route.
bool has_route_memory(std::string_view codec);

using MemoryByRoute = std::map<std::string, std::vector<MemoryEntry>>;

// The step in which each parameter last used a route. Memory is valid only in the step after that
// one: otherwise it is from before the route was disabled.
class RouteSteps {
 public:
  // A parameter is about to use the route. Returns false if its memory is stale and must be
  // deleted.
  bool begin(std::uint64_t parameter, std::uint64_t step);
  // Entries were loaded, as of the step before `step`.
  void loaded(std::span<const MemoryEntry> entries, std::uint64_t step);

  // The entries that are not stale if `step` is the next one.
  std::vector<MemoryEntry> current(std::vector<MemoryEntry> entries, std::uint64_t step) const;
  // The parameters whose last step is `step`.
  std::vector<std::uint64_t> parameters_of(std::uint64_t step) const;

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> last_;  // by parameter
};

}  // namespace nf
