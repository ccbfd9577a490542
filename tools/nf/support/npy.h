// Arrays that NumPy wrote: two dimensions, float32, rows one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "neuron_fabric/status.h"

namespace nf::cli {

// A file seen through memory: nothing is read before it is used, and files may be larger than the
// memory. Any thread may read.
class NpyArray {
 public:
  // Fails, naming the file and what is wrong with it, where it is no such array of format 1.0 or
  // 2.0, or is longer or shorter than its shape says.
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
