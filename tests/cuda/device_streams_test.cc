// The streams of an all-reduce, with a transport that moves nothing.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

#include "cuda/collective/device_all_reduce.h"
#include "cuda/device_test.h"
#include "cuda/stuck_work.h"

namespace nf {
namespace {

using test::expect_cuda;
using test::expect_ok;

// Rank 0 of two. An exchange calls a function of the test; no data arrives.
class IdleTransport final : public cuda::StreamTransport {
 public:
  using Exchange = std::function<Status(int call, cudaStream_t stream)>;
  explicit IdleTransport(Exchange exchange) : exchange_(std::move(exchange)) {}

  std::string_view name() const override { return "idle"; }
  std::uint32_t rank() const override { return 0; }
  std::uint32_t ranks() const override { return 2; }
  Status exchange(std::span<const cuda::StreamTransfer>, std::span<const cuda::StreamTransfer>,
                  cudaStream_t stream) override {
    return exchange_(++calls_, stream);
  }
  Status health() override { return failure_; }
  void abort(const Status& why) override { failure_ = why; }

 private:
  const Exchange exchange_;
  int calls_ = 0;
  Status failure_;
};

class DeviceStreams : public test::OnDevice<> {
 protected:
  // Lazy loading waits for all work on the device at the first launch of a kernel.
  static void SetUpTestSuite() { ::setenv("CUDA_MODULE_LOADING", "EAGER", 1); }
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    expect_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    values_.emplace(std::vector<float>(kCount + kSpare, 1));
  }
  void TearDown() override {
    if (stream_ != nullptr) expect_cuda(cudaStreamDestroy(stream_));
  }

  // bf16 has no statistics: each round of the only tile is an exchange.
  static auto make_sum(IdleTransport& transport, cuda::Wire* wire = nullptr) {
    auto sum = cuda::DeviceAllReduce::create(transport, {.codec = "bf16", .wire = wire});
    expect_ok(sum.status(), "DeviceAllReduce");
    return std::move(*sum);
  }
  // The values from index `first` on.
  Status enqueue(cuda::DeviceAllReduce& sum, std::size_t first = 0) {
    const Gradient gradient{
        .parameter = 1, .values = Values(values_->as<float>() + first, kCount, DataType::kFloat32)};
    return sum.enqueue({.gradients = {&gradient, 1}}, stream_);
  }

  static constexpr std::size_t kCount = 1 << 12;
  static constexpr std::size_t kSpare = 64;
  cudaStream_t stream_ = nullptr;
  std::optional<test::DeviceCopy> values_;
};

// Memory is freed in the order of the caller's stream, so that must wait for the exchanges.
TEST_F(DeviceStreams, WaitForTheExchangesOfAFailedCall) {
  test::StuckWork stuck;
  IdleTransport transport([&](int call, cudaStream_t wire) {
    if (call == 1) return Status();
    expect_ok(stuck.put_on(wire), "blocked exchange");
    return Status(ErrorCode::kPeerLost, "the other rank is gone");
  });
  const auto sum = make_sum(transport);
  EXPECT_EQ(enqueue(*sum).code(), ErrorCode::kPeerLost);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // its kernels have ended
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  stuck.release();
  expect_cuda(cudaStreamSynchronize(stream_));
  EXPECT_TRUE(stuck.is_over());
  EXPECT_EQ(enqueue(*sum).code(), ErrorCode::kPeerLost);  // the transport's error
}

TEST_F(DeviceStreams, ShareTheWireOfAChannel) {
  std::set<cudaStream_t> wires;
  IdleTransport transport([&](int, cudaStream_t wire) {
    wires.insert(wire);
    return Status();
  });
  cuda::Wire wire;
  for (int i = 0; i < 3; ++i) expect_ok(enqueue(*make_sum(transport, &wire)), "a call");
  EXPECT_EQ(wires, std::set<cudaStream_t>{wire.stream()});
  EXPECT_NE(wire.stream(), stream_);
  expect_ok(enqueue(*make_sum(transport)), "a call on a wire of its own");
  expect_cuda(cudaStreamSynchronize(stream_));
  EXPECT_EQ(wires.size(), 2u);
}

// Also while the stream is blocked: neither a new layout nor a move waits for it.
TEST_F(DeviceStreams, ReuseTheLayoutAtOtherAddresses) {
  IdleTransport transport([](int, cudaStream_t) { return Status(); });
  for (const char* codec : {"bf16", "waterfill:4", "topkc:1", "g_binary", "waterfill:4+ef"}) {
    SCOPED_TRACE(codec);
    cuda::ResidualMemory memory(cuda::pool_allocator(), stream_);
    auto sum = cuda::DeviceAllReduce::create(transport, {.codec = codec}, &memory);
    ASSERT_TRUE(sum) << to_string(sum.status());
    test::StuckWork stuck;
    expect_ok(stuck.put_on(stream_), "blocking work");
    for (const std::size_t first : {0, 4, 32, 0}) {  // aligned to 16 bytes
      expect_ok(enqueue(**sum, first), "a call");
      EXPECT_EQ((*sum)->part()->layouts(), 1u);
    }
    expect_ok(enqueue(**sum, 1), "a call with misaligned values");
    // With error feedback, a call works on aligned copies.
    EXPECT_EQ((*sum)->part()->layouts(), std::string_view(codec).ends_with("+ef") ? 1u : 2u);
    EXPECT_FALSE(stuck.is_over());
    stuck.release();
    expect_cuda(cudaStreamSynchronize(stream_));
  }
}

}  // namespace
}  // namespace nf
