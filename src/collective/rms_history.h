// The running mean of the squares of a reduced gradient, element by element, in BF16. All ranks see
// the same sums, so they hold the same history. Codecs with `+rms` encode values in units of its
// root: an optimizer that divides by that root feels errors in these units.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codec/rms_units.h"
#include "neuron_fabric/all_reduce.h"

namespace nf {

class RmsHistory {
 public:
  static constexpr std::string_view kKind = "rms_history";
  static constexpr std::size_t kMaxSteps = 100;  // more are not counted

  RmsHistory();

  // Multiplies the values of a parameter by powers of two near the inverse root of its history
  // (docs/collectives.md). A parameter without history keeps its values. Fails if the history has
  // another size.
  Status scale(std::uint64_t parameter, std::span<float> values);
  // Divides by the factors of the last scale(). Exact.
  void unscale(std::uint64_t parameter, std::span<float> values) const;
  // Adds the sum of this call, which contains neither NaN nor Inf, to the history. `inverse_scale`
  // removes the loss scale. A no-op if all values are zero: perhaps no rank used the parameter.
  void commit(std::uint64_t parameter, std::span<const float> sum, float inverse_scale);
  // Undoes the last commit() of a parameter, unless another call has begun since.
  void undo(std::uint64_t parameter);
  // A hash of the history of a parameter, chained to `seed`. Equal on all ranks.
  std::uint64_t digest(std::uint64_t parameter, std::uint64_t seed) const;

  // As in AllReduce.
  std::vector<MemoryEntry> save_memory() const;
  Status load_memory(std::span<const MemoryEntry> memory);
  void forget(std::uint64_t parameter) { by_parameter_.erase(parameter); }
  void clear() { by_parameter_.clear(); }

 private:
  struct History {
    std::vector<std::uint16_t> squares;   // BF16; empty before the first sum
    std::vector<std::uint16_t> previous;  // before the last commit()
    std::size_t steps = 0;                // in the mean; at most kMaxSteps
    std::size_t previous_steps = 0;
    bool can_undo = false;
  };

  const RmsUnits& units_;
  std::unordered_map<std::uint64_t, History> by_parameter_;
};

}  // namespace nf
