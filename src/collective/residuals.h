// Error feedback: what a rank's encodes have lost, element by element, to be added to its values
// the next time. It is kept without the loss scale of the call that lost it. If all values of a
// parameter are zero, its residual is not added but stays: no rank may have used the parameter, and
// then DDP discards the sum.
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
  static constexpr std::string_view kWhat = "residual";

  // Where the losses of this call are to be written: zeros of a parameter's size. Fails where what
  // is kept of it has another size.
  Expected<std::span<float>> begin(std::uint64_t parameter, std::size_t count);
  // Adds what was kept, times the loss scale, to the work values of `domain`, but for parameters
  // whose values there are all zero. Precondition: they are FP32.
  void add(std::span<const Piece> domain, std::span<const ParameterView> parameters,
           float loss_scale);
  // From now on the losses of this call are what is kept; of a parameter to whose values nothing
  // was added, beside what was kept before.
  void keep(std::span<const ParameterView> parameters);
  // Takes the last keep() of a parameter back, unless another call has begun since.
  void undo(std::uint64_t parameter);

  // As AllReduce says.
  std::vector<Remembered> remembered() const;
  Status remember(std::span<const Remembered> memory);
  void forget(std::uint64_t parameter) { by_parameter_.erase(parameter); }
  void clear() { by_parameter_.clear(); }

 private:
  struct Residual {
    std::vector<float> kept;
    std::vector<float> next;      // of the call under way; after keep(), what was kept before
    bool holds_what_was = false;  // next does
    bool is_added = false;        // to the values of the call under way
  };

  std::unordered_map<std::uint64_t, Residual> by_parameter_;
};

// That a parameter has as many values as the residual that is remembered of it.
Status check_residual(std::uint64_t parameter, std::size_t remembered, std::size_t now);
// That `memory` is residuals, of the sizes that are known already: `known` says how many values,
// and nothing where nothing is remembered.
Status check_residuals(
    std::span<const Remembered> memory,
    const std::function<std::optional<std::size_t>(std::uint64_t parameter)>& known);

}  // namespace nf
