// Memory is freed in the order of the stream that uses it: it is not reused while that stream has
// work on it.
#include "cuda/base/device_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/device_test.h"
#include "cuda/stuck_work.h"

namespace nf {
namespace {

using test::expect_cuda;
using test::expect_ok;

// Records the streams of allocations and frees.
class RecordingAllocator final : public cuda::DeviceAllocator {
 public:
  void* allocate(std::size_t, cudaStream_t stream) override {
    allocated.push_back(stream);
    return this;
  }
  void free(void*, cudaStream_t stream) override { freed.push_back(stream); }

  std::vector<cudaStream_t> allocated;
  std::vector<cudaStream_t> freed;
};

TEST(DeviceBufferStreams, AreThoseOfTheLastReserve) {
  int dummies[2];  // their addresses stand for streams
  auto* const one = reinterpret_cast<cudaStream_t>(&dummies[0]);
  auto* const other = reinterpret_cast<cudaStream_t>(&dummies[1]);
  RecordingAllocator allocator;
  {
    cuda::DeviceBuffer buffer(allocator);
    expect_ok(buffer.reserve(100, one), "reserve");
    expect_ok(buffer.reserve(50, other), "reserve");  // large enough
    expect_ok(buffer.reserve(200, one), "reserve");   // grows: `other` may still use the old memory
    EXPECT_EQ(allocator.freed, std::vector<cudaStream_t>({other}));
  }
  EXPECT_EQ(allocator.allocated, std::vector<cudaStream_t>({one, one}));
  EXPECT_EQ(allocator.freed, std::vector<cudaStream_t>({other, one}));
}

// The stream `busy` is blocked before it clears its buffer, which is freed meanwhile by `release`.
// Memory that another stream allocates after that must not change.
template <typename Release>
void expect_no_reuse_while_busy(Release release) {
  constexpr std::size_t kSize = 4 << 20;
  cudaStream_t busy = nullptr;
  cudaStream_t other = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
  expect_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  {
    cuda::DeviceBuffer buffer(cuda::pool_allocator());
    cuda::DeviceBuffer theirs(cuda::pool_allocator());
    test::StuckWork stuck;
    expect_ok(buffer.reserve(kSize, busy), "memory");
    expect_cuda(cudaStreamSynchronize(busy));
    expect_ok(stuck.put_on(busy), "blocking work");
    expect_cuda(cudaMemsetAsync(buffer.data(), 0, kSize, busy));
    release(buffer, busy);
    EXPECT_FALSE(stuck.is_over());  // release() did not wait
    expect_ok(theirs.reserve(kSize, other), "memory");
    expect_cuda(cudaMemsetAsync(theirs.data(), 0x5a, kSize, other));
    expect_cuda(cudaStreamSynchronize(other));
    stuck.release();
    expect_cuda(cudaStreamSynchronize(busy));
    std::vector<unsigned char> seen(kSize);
    expect_cuda(cudaMemcpyAsync(seen.data(), theirs.data(), kSize, cudaMemcpyDeviceToHost, other));
    expect_cuda(cudaStreamSynchronize(other));
    EXPECT_EQ(seen, std::vector<unsigned char>(kSize, 0x5a));
  }
  expect_cuda(cudaStreamDestroy(busy));
  expect_cuda(cudaStreamDestroy(other));
}

class DeviceBuffer : public test::OnDevice<> {};

TEST_F(DeviceBuffer, IsNotReusedWhileItsStreamUsesIt) {
  expect_no_reuse_while_busy([](auto& buffer, cudaStream_t) { buffer.reset(); });
}

TEST_F(DeviceBuffer, GrowsWhileItsStreamUsesTheOldMemory) {
  expect_no_reuse_while_busy([](auto& buffer, cudaStream_t stream) {
    expect_ok(buffer.reserve(2 * buffer.size(), stream), "more memory");
  });
}

}  // namespace
}  // namespace nf
