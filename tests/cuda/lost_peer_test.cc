// A rank that loses a peer reports it while its device still waits for the peer. Only when the
// caller aborts does the device continue.
#include <gtest/gtest.h>

#include "cuda/base/launch.h"
#include "cuda/device_test.h"
#include "cuda/loopback.h"
#include "cuda/runtime/device_path.h"
#include "cuda/stuck_work.h"
#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

class NoEngine final : public DenseEngine {
 public:
  Status sum(Values) override { return {}; }
};

class LostPeer : public test::OnDevice<> {};

TEST_F(LostPeer, IsReportedWhileTheDeviceStillWaits) {
  test::LoopbackNetwork network(1);
  test::on_all_ranks(1, [&](Transport& control) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    const auto transport = network.endpoint(0);
    NoEngine engine;
    bool is_lost = false;
    const auto check_peers = [&](std::uint64_t, Duration) {
      return is_lost ? Status(ErrorCode::kPeerLost, "rank 1 is gone") : Status();
    };
    const auto make = [&](FabricOptions options) {
      return cuda::create_fabric(control,
                                 {.channels = {{.transport = *transport, .stream = stream}},
                                  .engine = engine,
                                  .engine_stream = stream,
                                  .stream = stream,
                                  .check_peers = check_peers},
                                 std::move(options));
    };
    test::StuckWork stuck;
    void* memory = nullptr;
    const auto average = [&](Fabric& fabric, Bucket bucket) {
      const std::size_t size = bucket.values.count * size_of(bucket.values.type);
      NF_RETURN_IF_ERROR(cuda::to_status(cudaMallocAsync(&memory, size, stream), "allocate"));
      bucket.values.data = memory;
      if (is_lost && bucket.is_last) NF_RETURN_IF_ERROR(stuck.put_on(stream));
      NF_RETURN_IF_ERROR(fabric.all_reduce(bucket));
      return cuda::to_status(cudaFreeAsync(memory, stream), "free");
    };
    {
      test::FabricRank rank(control, {.profile = test::short_profile("waterfill:4")}, make,
                            average);
      EXPECT_TRUE(rank.run_step().ok());
      is_lost = true;
      const Status status = rank.run_step();
      EXPECT_EQ(status.code(), ErrorCode::kPeerLost) << to_string(status);
      EXPECT_FALSE(stuck.is_over());
      stuck.release();
    }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
}

}  // namespace
}  // namespace nf
