// A rank whose peers never connect fails and continues; a single rank sends to itself.
#include "cuda/transport/nccl_transport.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "cuda/device_test.h"

namespace nf {
namespace {

using test::expect_cuda;
using test::expect_ok;
using Clock = std::chrono::steady_clock;

class NcclTransport : public test::OnDevice<> {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);  // the host may have no network
    const auto made = cuda::NcclTransport::make_identity();
    ASSERT_TRUE(made) << to_string(made.status());
    identity_ = *made;
  }

  ncclUniqueId identity_ = {};
};

TEST_F(NcclTransport, FailsAtTheDeadlineIfARankNeverConnects) {
  const Clock::time_point begin = Clock::now();
  const auto transport = cuda::NcclTransport::create(
      {.identity = identity_, .rank = 0, .ranks = 2, .timeout = std::chrono::seconds(2)});
  const Duration waited = Clock::now() - begin;
  ASSERT_FALSE(transport);
  EXPECT_EQ(transport.status().code(), ErrorCode::kDeadlineExceeded)
      << to_string(transport.status());
  EXPECT_NE(transport.status().message().find("2 ranks"), std::string::npos);
  EXPECT_GE(waited, std::chrono::seconds(2));
  EXPECT_LT(waited, std::chrono::seconds(20));
}

TEST_F(NcclTransport, FailsAsSoonAsCheckPeersDoes) {
  const Clock::time_point begin = Clock::now();
  const auto transport = cuda::NcclTransport::create(
      {.identity = identity_, .rank = 0, .ranks = 2, .check_peers = [](Duration) {
         return Status(ErrorCode::kPeerLost, "rank 1 is gone");
       }});
  ASSERT_FALSE(transport);
  EXPECT_EQ(transport.status().code(), ErrorCode::kPeerLost);
  EXPECT_EQ(transport.status().message(), "rank 1 is gone");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(NcclTransport, HasEnqueuedAnExchangeWhenItReturns) {
  const auto transport =
      cuda::NcclTransport::create({.identity = identity_, .timeout = std::chrono::seconds(60)});
  ASSERT_TRUE(transport) << to_string(transport.status());
  const std::vector<int> sent = {1, 2, 3, 4};
  const test::DeviceCopy from(sent);
  const test::DeviceCopy to(std::vector<int>(sent.size()));
  const cuda::StreamTransfer send{0, from.as<std::byte>(), sent.size() * sizeof(int)};
  const cuda::StreamTransfer receive{0, to.as<std::byte>(), send.size};
  cudaStream_t stream = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int call = 0; call < 3; ++call) {
    expect_ok((*transport)->exchange({&send, 1}, {&receive, 1}, stream), "an exchange");
    expect_cuda(cudaStreamSynchronize(stream));
    test::expect_same("received bytes", to.bytes(), from.bytes());
    expect_cuda(cudaMemset(to.as<void>(), 0, send.size));
  }
  expect_ok((*transport)->health(), "health");
  (*transport)->abort({ErrorCode::kAborted, "aborted by this rank"});
  EXPECT_EQ((*transport)->exchange({&send, 1}, {&receive, 1}, stream).code(), ErrorCode::kAborted);
  expect_cuda(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace nf
