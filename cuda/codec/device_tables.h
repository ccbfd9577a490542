// Tables in device memory, uploaded in one copy without host synchronisation.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/base/upload.h"

namespace nf::cuda {

// Tables to upload: tables with contents first, then uninitialised ones. upload() sets the pointers
// to them.
class DeviceTables {
 public:
  // T may be const in the pointer.
  template <typename T, typename Table>
  void add(const std::vector<T>& contents, Table** pointer) {
    const std::size_t at = aligned(bytes_.size());
    bytes_.resize(at + contents.size() * sizeof(T));
    std::memcpy(bytes_.data() + at, contents.data(), contents.size() * sizeof(T));
    on_upload_.push_back([this, at, pointer] { *pointer = reinterpret_cast<T*>(base_ + at); });
  }
  template <typename T>
  void reserve(std::size_t count, T** pointer) {
    const std::size_t at = aligned(reserved_);
    reserved_ = at + count * sizeof(T);
    on_upload_.push_back(
        [this, at, pointer] { *pointer = reinterpret_cast<T*>(reserved_at() + at); });
  }

  Status upload(DeviceBuffer& buffer, cudaStream_t stream) {
    const std::size_t size = aligned(bytes_.size()) + aligned(reserved_);
    NF_RETURN_IF_ERROR(buffer.reserve(std::max<std::size_t>(size, 1), stream));
    base_ = buffer.data();
    NF_RETURN_IF_ERROR(cuda::upload(base_, bytes_, stream));
    for (const std::function<void()>& set : on_upload_) set();
    return {};
  }

 private:
  std::byte* reserved_at() const { return base_ + aligned(bytes_.size()); }

  std::vector<std::byte> bytes_;
  std::size_t reserved_ = 0;
  std::byte* base_ = nullptr;
  std::vector<std::function<void()>> on_upload_;
};

}  // namespace nf::cuda
