#include "cuda/base/upload.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <mutex>

#include "cuda/base/event.h"
#include "cuda/base/launch.h"
#include "cuda/base/pinned_buffer.h"

namespace nf::cuda {
namespace {

// Pinned memory is allocated in slabs, because an allocation may wait for the device, and divided
// into blocks, one per copy at a time. The sizes of blocks are powers of two.
class StagingPool {
 public:
  Status upload(void* to, std::span<const std::byte> bytes, cudaStream_t stream) {
    int device = 0;
    NF_RETURN_IF_ERROR(to_status(cudaGetDevice(&device), "getting the current device"));
    const std::lock_guard lock(mutex_);
    const Expected<Block*> found = find(bytes.size(), device);
    if (!found) return found.status();
    Block& block = **found;
    std::memcpy(block.memory, bytes.data(), bytes.size());
    NF_RETURN_IF_ERROR(
        to_status(cudaMemcpyAsync(to, block.memory, bytes.size(), cudaMemcpyHostToDevice, stream),
                  "copy to the device"));
    const Status recorded = block.copied.record(stream);
    if (!recorded.ok()) block.size = 0;  // the copy may still read it: never use it again
    return recorded;
  }

 private:
  static constexpr std::size_t kMinBlock = 4 << 10;
  static constexpr std::size_t kSlab = 1 << 20;

  struct Block {
    std::byte* memory = nullptr;
    std::size_t size = 0;
    int device = 0;  // of the event
    Event copied;    // the last copy is complete
  };

  static bool is_free(const Block& block) {
    if (block.copied.get() == nullptr) return true;
    const cudaError_t state = cudaEventQuery(block.copied.get());
    if (state != cudaSuccess) static_cast<void>(cudaGetLastError());  // clear it: not an error
    return state == cudaSuccess;
  }

  // A block for one copy.
  Expected<Block*> find(std::size_t bytes, int device) {
    const std::size_t size = std::max(std::bit_ceil(bytes), kMinBlock);
    for (Block& block : blocks_) {
      if (block.size == size && block.device == device && is_free(block)) return &block;
    }
    if (left_ < size) {
      NF_RETURN_IF_ERROR(slabs_.emplace_back().reserve(std::max(size, kSlab)));
      next_ = slabs_.back().data();
      left_ = slabs_.back().size();
    }
    Block& made = blocks_.emplace_back();
    made.memory = next_;
    made.size = size;
    made.device = device;
    next_ += size;
    left_ -= size;
    return &made;
  }

  std::mutex mutex_;
  std::deque<PinnedBuffer> slabs_;
  std::deque<Block> blocks_;
  std::byte* next_ = nullptr;  // unused memory of the last slab
  std::size_t left_ = 0;
};

}  // namespace

Status upload(void* to, std::span<const std::byte> bytes, cudaStream_t stream) {
  // Never destroyed: freeing pinned memory at exit would wait for a device that waits for a peer.
  static StagingPool& pool = *new StagingPool;
  return bytes.empty() ? Status() : pool.upload(to, bytes, stream);
}

}  // namespace nf::cuda
