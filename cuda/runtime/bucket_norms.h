// Norms of buckets on a device: each bucket's table is made once, and anew where DDP has built the
// bucket anew.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/runtime/bucket_passes.h"
#include "neuron_fabric/binding.h"

namespace nf::cuda {

// Of one stream and one thread.
class BucketNorms {
 public:
  // Borrows all of it. `allocator` gives memory for work on `stream`.
  BucketNorms(const Binding& binding, DeviceAllocator& allocator, cudaStream_t stream)
      : binding_(binding), allocator_(allocator), stream_(stream) {}

  // Adds the norms of the bucket's values to those of their regions, which are in device memory.
  Status add(const Bucket& bucket, std::uint32_t regions, DeviceNorm* norms);

  // Device memory held.
  std::size_t size() const;

 private:
  struct Table {
    explicit Table(DeviceAllocator& allocator) : room(allocator) {}
    std::vector<BucketSlot> slots;
    std::uint32_t count = 0;
    DeviceBuffer room;
    const NormChunk* chunks = nullptr;  // in it, as many as `count`, and so are their norms
    DeviceNorm* norms = nullptr;
  };

  Expected<Table*> find(const Bucket& bucket);

  const Binding& binding_;
  DeviceAllocator& allocator_;
  const cudaStream_t stream_;
  std::vector<std::unique_ptr<Table>> tables_;  // by bucket
};

}  // namespace nf::cuda
