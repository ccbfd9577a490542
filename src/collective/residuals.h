// Error feedback: a rank's encoding errors, element by element, which are added to its next values.
// They are stored without the loss scale of their call. If all values of a parameter are zero, its
// residual is kept but not added: perhaps no rank used the parameter, and then DDP discards the
// sum.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collective/tile_codec.h"
#include "neuron_fabric/all_reduce.h"

namespace nf {

class Residuals {
 public:
  static constexpr std::string_view kKind = "residual";

  // Returns a zeroed buffer for the encoding errors of this call. Fails if the stored residual has
  // another size.
  Expected<std::span<float>> begin(std::uint64_t parameter, std::size_t count);
  // Adds the residuals, times the loss scale, to the work values of `domain`, except for parameters
  // whose values there are all zero. Precondition: the work values are FP32.
  void add(std::span<const Piece> domain, std::span<const ParameterView> parameters,
           float loss_scale);
  // Makes the errors of this call the new residuals. If the old residual of a parameter was not
  // added, the new one is the sum of both.
  void commit(std::span<const ParameterView> parameters);
  // Undoes the last commit() of a parameter, unless another call has begun since.
  void undo(std::uint64_t parameter);

  // As in AllReduce.
  std::vector<MemoryEntry> save_memory() const;
  Status load_memory(std::span<const MemoryEntry> memory);
  void forget(std::uint64_t parameter) { by_parameter_.erase(parameter); }
  void clear() { by_parameter_.clear(); }

 private:
  struct Residual {
    std::vector<float> current;
    std::vector<float> other;  // the next residual; after commit(), the previous one
    bool can_undo = false;     // `other` is the previous residual
    bool is_added = false;     // to the values of the current call
  };

  std::unordered_map<std::uint64_t, Residual> by_parameter_;
};

// Checks that a parameter has as many values as its residual.
Status check_residual(std::uint64_t parameter, std::size_t stored, std::size_t current);
// Checks that `memory` contains residuals only, and that their sizes are those that `known` returns
// (nullopt if the parameter has no residual).
Status check_residuals(
    std::span<const MemoryEntry> memory,
    const std::function<std::optional<std::size_t>(std::uint64_t parameter)>& known);

}  // namespace nf
