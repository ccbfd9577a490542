// Arrays written by NumPy: two dimensions, float32, C order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "neuron_fabric/status.h"

namespace nf::cli {

// A memory-mapped file: pages are read on first use, and the file may be larger than memory.
// Thread-safe.
class NpyArray {
 public:
  // Accepts versions 1.0 and 2.0 of the format. Fails with the name of the file and the reason if
  // the array has another type, order or number of dimensions, or if the size of the file does not
  // match the shape.
  static Expected<NpyArray> open(const std::string& path);

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::span<const float> row(std::size_t index) const {
    return {values_ + index * columns_, columns_};
  }

 private:
  std::shared_ptr<const std::byte> file_;
  const float* values_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
};

}  // namespace nf::cli
