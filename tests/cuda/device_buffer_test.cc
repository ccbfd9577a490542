// Memory is given back in the order of the stream that uses it: while work is on that stream,
// nobody else gets it.
#include "cuda/base/device_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/device_copy.h"
#include "cuda/stuck_work.h"

namespace nf {
namespace {

using test::expect_cuda;
using test::expect_ok;

// Tells for which streams memory was given and taken back.
class TellingAllocator final : public cuda::DeviceAllocator {
 public:
  void* allocate(std::size_t, cudaStream_t stream) override {
    given.push_back(stream);
    return this;
  }
  void free(void*, cudaStream_t stream) override { taken.push_back(stream); }

  std::vector<cudaStream_t> given;
  std::vector<cudaStream_t> taken;
};

TEST(DeviceBuffer, IsGivenBackForTheStreamThatUsedItLast) {
  int places[2];  // whose addresses stand for streams
  auto* const one = reinterpret_cast<cudaStream_t>(&places[0]);
  auto* const other = reinterpret_cast<cudaStream_t>(&places[1]);
  TellingAllocator allocator;
  {
    cuda::DeviceBuffer buffer(allocator);
    expect_ok(buffer.reserve(100, one), "reserve");
    expect_ok(buffer.reserve(50, other), "reserve");  // has room
    expect_ok(buffer.reserve(200, one), "reserve");   // grows: `other` may still use the old room
    EXPECT_EQ(allocator.taken, std::vector<cudaStream_t>({other}));
  }
  EXPECT_EQ(allocator.given, std::vector<cudaStream_t>({one, one}));
  EXPECT_EQ(allocator.taken, std::vector<cudaStream_t>({other, one}));
}

// The stream `busy` is held up and then clears its buffer, which is given up in the meantime by
// `give_up`. What another stream has allocated since then stays as it is.
template <typename GiveUp>
void expect_late_work_harms_nobody(GiveUp give_up) {
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
    expect_ok(stuck.put_on(busy), "work that waits");
    expect_cuda(cudaMemsetAsync(buffer.data(), 0, kSize, busy));
    give_up(buffer, busy);
    EXPECT_FALSE(stuck.is_over());  // nobody has waited for it
    expect_ok(theirs.reserve(kSize, other), "memory");
    expect_cuda(cudaMemsetAsync(theirs.data(), 0x5a, kSize, other));
    expect_cuda(cudaStreamSynchronize(other));
    stuck.give_up();
    expect_cuda(cudaStreamSynchronize(busy));
    std::vector<unsigned char> seen(kSize);
    expect_cuda(cudaMemcpyAsync(seen.data(), theirs.data(), kSize, cudaMemcpyDeviceToHost, other));
    expect_cuda(cudaStreamSynchronize(other));
    EXPECT_EQ(seen, std::vector<unsigned char>(kSize, 0x5a));
  }
  expect_cuda(cudaStreamDestroy(busy));
  expect_cuda(cudaStreamDestroy(other));
}

TEST(DeviceBuffer, IsNobodyElsesWhileItsStreamUsesIt) {
  if (!test::has_device()) GTEST_SKIP() << "no CUDA device on this machine";
  expect_late_work_harms_nobody([](auto& buffer, cudaStream_t) { buffer.reset(); });
}

TEST(DeviceBuffer, GrowsWhileItsStreamUsesTheOldMemory) {
  if (!test::has_device()) GTEST_SKIP() << "no CUDA device on this machine";
  expect_late_work_harms_nobody([](auto& buffer, cudaStream_t stream) {
    expect_ok(buffer.reserve(2 * buffer.size(), stream), "more memory");
  });
}

}  // namespace
}  // namespace nf
