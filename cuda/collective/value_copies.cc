#include "cuda/collective/value_copies.h"

#include "cuda/base/launch.h"
#include "cuda/codec/convert.h"
#include "cuda/collective/layout_key.h"

namespace nf::cuda {
namespace {

std::size_t bytes_of(const Values& values) { return values.count * size_of(values.type); }

Status copy(const Values& from, const Values& to, cudaStream_t stream) {
  if (from.type != to.type) return convert(from, to, stream);
  return copy_on_device(to.data, from.data, bytes_of(from), stream);
}

}  // namespace

Status ValueCopies::make(std::span<const Gradient> gradients, bool in_fp32, cudaStream_t stream) {
  working_.assign(gradients.begin(), gradients.end());
  std::size_t size = 0;
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < working_.size(); ++i) {
    Gradient& gradient = working_[i];
    if (gradient.values.type != gradients.front().values.type) {
      return {ErrorCode::kInvalidArgument,
              "all gradients of a device all-reduce must have the same type"};
    }
    const bool widens = in_fp32 && gradient.values.type != DataType::kFloat32;
    if (!widens && !is_misaligned(gradient.values)) continue;
    copies_.push_back({.values = gradient.values, .gradient = i});
    if (widens) gradient.values.type = DataType::kFloat32;
    offsets.push_back(size);
    size += aligned(bytes_of(gradient.values));
  }
  if (size == 0) return {};
  NF_RETURN_IF_ERROR(memory_.reserve(size, stream));
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    working_[copies_[i].gradient].values.data = memory_.data() + offsets[i];
  }
  return {};
}

void ValueCopies::move_to(std::span<const Gradient> gradients) {
  auto copy = copies_.begin();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const bool is_copied = copy != copies_.end() && copy->gradient == i;
    Values& values = is_copied ? (copy++)->values : working_[i].values;
    values.data = gradients[i].values.data;
  }
}

Status ValueCopies::copy_in(cudaStream_t stream) const {
  for (const Copy& one : copies_) {
    NF_RETURN_IF_ERROR(copy(one.values, working_[one.gradient].values, stream));
  }
  return {};
}

Status ValueCopies::copy_out(const GradientRange& range, cudaStream_t stream) const {
  for (const Copy& one : copies_) {
    if (one.gradient < range.first || one.gradient >= range.first + range.count) continue;
    NF_RETURN_IF_ERROR(copy(working_[one.gradient].values, one.values, stream));
  }
  return {};
}

}  // namespace nf::cuda
