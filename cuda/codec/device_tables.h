// Tables in device memory, copied there in one go.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/base/launch.h"

namespace nf::cuda {

// Tables on their way to the device: those with contents first, then mere room. Pointers to them
// are filled in when they are there.
class DeviceTables {
 public:
  template <typename T>
  void add(const std::vector<T>& contents, const T** where) {
    const std::size_t at = aligned(bytes_.size());
    bytes_.resize(at + contents.size() * sizeof(T));
    std::memcpy(bytes_.data() + at, contents.data(), contents.size() * sizeof(T));
    arrivals_.push_back([this, at, where] { *where = reinterpret_cast<const T*>(base_ + at); });
  }
  template <typename T>
  void room(std::size_t count, T** where) {
    const std::size_t at = aligned(room_);
    room_ = at + count * sizeof(T);
    arrivals_.push_back([this, at, where] { *where = reinterpret_cast<T*>(room_at() + at); });
  }

  Status upload(DeviceBuffer& buffer, cudaStream_t stream) {
    const std::size_t size = aligned(bytes_.size()) + aligned(room_);
    NF_RETURN_IF_ERROR(buffer.reserve(std::max<std::size_t>(size, 1), stream));
    base_ = buffer.data();
    NF_RETURN_IF_ERROR(to_status(
        cudaMemcpyAsync(base_, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice, stream),
        "copy of a sum's tables to the device"));
    for (const std::function<void()>& arrive : arrivals_) arrive();
    return {};
  }

 private:
  std::byte* room_at() const { return base_ + aligned(bytes_.size()); }

  std::vector<std::byte> bytes_;
  std::size_t room_ = 0;
  std::byte* base_ = nullptr;
  std::vector<std::function<void()>> arrivals_;
};

}  // namespace nf::cuda
