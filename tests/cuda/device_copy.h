// Device memory in tests: copies of it, and comparisons with the CPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::test {

using Bytes = std::vector<std::byte>;

// Whether there is a device to run on.
bool has_device();

// Add a failure if `status` or `error` is an error.
void expect_ok(const Status& status, const char* what);
void expect_cuda(cudaError_t error);
// Adds a failure if bytes differ, with their number and the first of them.
void expect_same(const char* what, std::span<const std::byte> actual,
                 std::span<const std::byte> expected);

// Device memory with the contents of host memory.
class DeviceCopy {
 public:
  explicit DeviceCopy(std::span<const std::byte> bytes);
  template <typename T>
  explicit DeviceCopy(const std::vector<T>& items) : DeviceCopy(std::as_bytes(std::span(items))) {}
  ~DeviceCopy();
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  Bytes bytes() const;

 private:
  void* memory_ = nullptr;
  std::size_t size_;
};

// Makes all FP32 NaNs equal: their bits are not part of a format.
Bytes with_one_nan(Bytes values, DataType type);
// Value i as FP32.
float widened(ConstValues values, std::size_t i);

}  // namespace nf::test
