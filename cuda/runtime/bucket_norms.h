// Norms of the results of buckets on a device. The table of each bucket is built once, and again if
// DDP rebuilds the bucket.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/runtime/bucket_passes.h"
#include "neuron_fabric/binding.h"
#include "runtime/bucket_work.h"

namespace nf::cuda {

// Belongs to one stream and one thread.
class BucketNorms {
 public:
  // Borrows all arguments. `allocator` allocates for work on `stream`.
  BucketNorms(const Binding& binding, DeviceAllocator& allocator, cudaStream_t stream)
      : binding_(binding), allocator_(allocator), stream_(stream) {}

  // Adds the norms of the bucket's results to those of the regions, which are in device memory.
  Status add(const BucketWork& work, DeviceNorm* norms);

  // Device memory held.
  std::size_t size() const;

 private:
  struct Table {
    explicit Table(DeviceAllocator& allocator) : buffer(allocator) {}
    std::vector<BucketSlot> slots;
    std::uint32_t count = 0;
    DeviceBuffer buffer;
    const NormChunk* chunks = nullptr;  // `count` of them, in the buffer; so are their norms
    DeviceNorm* norms = nullptr;
  };

  Expected<Table*> find(std::uint32_t bucket, std::vector<BucketSlot> slots);

  const Binding& binding_;
  DeviceAllocator& allocator_;
  const cudaStream_t stream_;
  std::vector<std::unique_ptr<Table>> tables_;  // by bucket
};

}  // namespace nf::cuda
