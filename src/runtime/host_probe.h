// The probe of host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/bucket_path.h"
#include "runtime/route_collectives.h"

namespace nf {

// The values that probes sum at low bits: a triangular distribution around zero, neither regular
// nor a hard case.
std::vector<float> probe_values(std::size_t count, std::uint32_t rank);

// The call in which a probe reduces its values. With `scatters`, each rank gets an equal part;
// values beyond that are left out.
struct ProbeCall {
  ProbeCall(Values values, std::size_t rows, std::uint32_t ranks, bool scatters);

  std::vector<Gradient> gradients;
  std::vector<std::size_t> shards;  // as RouteValues::shards
};

class HostProbe final : public Probe {
 public:
  static constexpr ProbeSize kSize = {.shape = {.count = 512 << 10, .rows = 512}};

  // Borrows all but the timeout and the size, which is at most kSize.
  HostProbe(Transport& transport, DenseEngine& engine, RouteCollectives& collectives,
            Collective collective, Duration timeout, ProbeSize size = kSize);
  // Deletes the route memory of its sums.
  ~HostProbe() override;

  Status shift(std::size_t bytes) override;
  Status sum_dense(std::size_t bytes) override;
  Status sum_low_bit(const std::string& route, std::uint64_t step) override;
  ProbeSize size() const override { return size_; }

 private:
  Transport& transport_;
  DenseEngine& engine_;
  RouteCollectives& collectives_;
  const bool scatters_;
  const Duration timeout_;
  const ProbeSize size_;
  std::vector<float> values_;
  std::vector<float> sent_;
  std::vector<float> received_;
  std::set<std::string> used_;  // routes
};

}  // namespace nf
