// A rank that cannot enqueue a bucket aborts all its channels, so that no rank waits for it and its
// own device waits for no rank.
#include <gtest/gtest.h>

#include <deque>

#include "cuda/device_test.h"
#include "cuda/runtime/device_path.h"
#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

// Records the reason of an abort.
class LoneTransport final : public cuda::StreamTransport {
 public:
  std::string_view name() const override { return "lone"; }
  std::uint32_t rank() const override { return 0; }
  std::uint32_t ranks() const override { return 1; }
  Status exchange(std::span<const cuda::StreamTransfer>, std::span<const cuda::StreamTransfer>,
                  cudaStream_t) override {
    return failure;
  }
  Status health() override { return failure; }
  void abort(const Status& why) override {
    if (failure.ok()) failure = why;
  }

  Status failure;
};

class NoMemory final : public cuda::DeviceAllocator {
 public:
  void* allocate(std::size_t, cudaStream_t) override { return nullptr; }
  void free(void*, cudaStream_t) override {}
};

class NoEngine final : public DenseEngine {
 public:
  Status sum(Values) override { return {}; }
};

class DeviceFailure : public test::OnDevice<> {};

TEST_F(DeviceFailure, AbortsAllChannels) {
  test::on_all_ranks(1, [&](Transport& control) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    std::deque<LoneTransport> transports(2);
    NoEngine engine;
    NoMemory memory;
    const auto make = [&](FabricOptions options) {
      std::vector<cuda::Channel> channels;
      for (LoneTransport& transport : transports) {
        channels.push_back({.transport = transport, .stream = stream});
      }
      return cuda::create_fabric(control,
                                 {.channels = channels,
                                  .engine = engine,
                                  .engine_stream = stream,
                                  .stream = stream,
                                  .allocator = &memory},
                                 std::move(options));
    };
    const auto average = [](Fabric& fabric, const Bucket& bucket) {
      return fabric.all_reduce(bucket);
    };
    {
      test::FabricRank rank(control, {.profile = test::short_profile("waterfill:4")}, make,
                            average);
      for (int step = 0; step < 2; ++step) {
        EXPECT_EQ(rank.run_step().code(), ErrorCode::kOutOfMemory);
        for (const LoneTransport& transport : transports) {
          EXPECT_EQ(transport.failure.code(), ErrorCode::kOutOfMemory);
        }
      }
    }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
}

}  // namespace
}  // namespace nf
