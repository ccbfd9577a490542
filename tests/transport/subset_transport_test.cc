#include "transport/subset_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "neuron_fabric/inproc_transport.h"

namespace nf {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// Ranks 3 and 1 of four, in that order: rank 3 is member 0.
class SubsetTransportTest : public testing::Test {
 protected:
  InprocNetwork network_{4};
  std::unique_ptr<Transport> three_ = network_.endpoint(3);
  std::unique_ptr<Transport> one_ = network_.endpoint(1);
  SubsetTransport first_{*three_, {3, 1}};
  SubsetTransport second_{*one_, {3, 1}};
};

TEST_F(SubsetTransportTest, NumbersItsMembersInOrder) {
  EXPECT_EQ(first_.rank(), 0u);
  EXPECT_EQ(second_.rank(), 1u);
  EXPECT_EQ(first_.ranks(), 2u);
  EXPECT_EQ(first_.name(), "inproc");
}

TEST_F(SubsetTransportTest, MovesMessagesBetweenItsMembers) {
  Bytes outgoing(5, std::byte{7});
  Bytes incoming(5);
  Transfer sent{.peer = 1, .bytes = outgoing};
  Transfer received{.peer = 0, .bytes = incoming};
  for (int k = 0; k < 2; ++k) {  // reuse the transfers: peer is unchanged
    ASSERT_TRUE(second_.receive(received).ok());
    ASSERT_TRUE(first_.send(sent).ok());
    EXPECT_EQ(sent.peer, 1u);
    EXPECT_EQ(received.peer, 0u);
    ASSERT_TRUE(first_.progress().ok());
    ASSERT_TRUE(second_.wait(second_.now()).ok());
    EXPECT_TRUE(sent.is_done);
    EXPECT_TRUE(received.is_done);
    EXPECT_EQ(incoming, outgoing);
  }
}

TEST_F(SubsetTransportTest, RejectsOtherPeers) {
  Bytes bytes(1);
  for (const std::uint32_t peer : {0u, 2u, 3u}) {
    Transfer transfer{.peer = peer, .bytes = bytes};
    EXPECT_EQ(first_.send(transfer).code(), ErrorCode::kInvalidArgument) << peer;
    EXPECT_EQ(first_.receive(transfer).code(), ErrorCode::kInvalidArgument) << peer;
  }
  EXPECT_TRUE(first_.progress().ok());
}

TEST_F(SubsetTransportTest, FailsLikeTheFullTransport) {
  Bytes bytes(1);
  Transfer transfer{.peer = 0, .bytes = bytes};
  ASSERT_TRUE(second_.receive(transfer).ok());
  first_.abort({ErrorCode::kCorruptFrame, "no such code"});
  const Status status = second_.progress();
  EXPECT_EQ(status.code(), ErrorCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("rank 3 aborted"));
  EXPECT_EQ(three_->progress().code(), ErrorCode::kCorruptFrame);
}

}  // namespace
}  // namespace nf
