// What the layout of a call depends on: all of its gradients but their addresses. A source such as
// FSDP passes a new buffer in every call; its layout stays the same. Host code only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

// Kernels access values 16 bytes at a time; values that are not aligned to that are copied first.
inline bool is_misaligned(const Values& values) {
  constexpr std::uintptr_t kAlignment = 16;  // of DevicePiece
  return values.count > 0 && reinterpret_cast<std::uintptr_t>(values.data) % kAlignment != 0;
}

class LayoutKey {
 public:
  LayoutKey() = default;
  // `firsts` and `borders` as in DevicePlan::Request.
  explicit LayoutKey(std::span<const Gradient> gradients,
                     std::span<const std::uint64_t> firsts = {},
                     std::span<const std::size_t> borders = {})
      : firsts_(firsts.begin(), firsts.end()), borders_(borders.begin(), borders.end()) {
    for (const Gradient& gradient : gradients) shapes_.push_back(shape_of(gradient));
  }

  // Whether a call with these arguments has the same layout.
  bool is_of(std::span<const Gradient> gradients, std::span<const std::uint64_t> firsts = {},
             std::span<const std::size_t> borders = {}) const {
    return std::ranges::equal(gradients, shapes_, {}, shape_of) &&
           std::ranges::equal(firsts, firsts_) && std::ranges::equal(borders, borders_);
  }

 private:
  struct Shape {
    std::uint64_t parameter = 0;
    std::size_t count = 0;
    std::size_t rows = 0;
    DataType type = DataType::kFloat32;
    bool is_misaligned = false;

    bool operator==(const Shape&) const = default;
  };

  static Shape shape_of(const Gradient& gradient) {
    return {.parameter = gradient.parameter,
            .count = gradient.values.count,
            .rows = gradient.rows,
            .type = gradient.values.type,
            .is_misaligned = cuda::is_misaligned(gradient.values)};
  }

  std::vector<Shape> shapes_;
  std::vector<std::uint64_t> firsts_;
  std::vector<std::size_t> borders_;
};

}  // namespace nf::cuda
