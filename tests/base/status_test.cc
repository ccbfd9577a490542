#include "neuron_fabric/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "neuron_fabric/data_type.h"

namespace nf {
namespace {

TEST(Status, IsOkByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), ErrorCode::kOk);
  EXPECT_EQ(to_string(status), "ok");
}

TEST(Status, PrintsCodeAndMessage) {
  const Status status(ErrorCode::kInvalidArgument, "wire is 12 bytes, expected 16");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(to_string(status), "invalid_argument: wire is 12 bytes, expected 16");
}

TEST(ErrorCode, HasNames) {
  EXPECT_EQ(to_string(ErrorCode::kOk), "ok");
  EXPECT_EQ(to_string(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_EQ(to_string(ErrorCode::kBadConfig), "bad_config");
  EXPECT_EQ(to_string(ErrorCode::kCorruptFrame), "corrupt_frame");
  EXPECT_EQ(to_string(ErrorCode::kForeignFrame), "foreign_frame");
  EXPECT_EQ(to_string(ErrorCode::kUnsupported), "unsupported");
  EXPECT_EQ(to_string(ErrorCode::kDisagreement), "disagreement");
  EXPECT_EQ(to_string(ErrorCode::kPeerLost), "peer_lost");
  EXPECT_EQ(to_string(ErrorCode::kAborted), "aborted");
  EXPECT_EQ(to_string(ErrorCode::kDeadlineExceeded), "deadline_exceeded");
  EXPECT_EQ(to_string(ErrorCode::kOutOfMemory), "out_of_memory");
  EXPECT_EQ(to_string(static_cast<ErrorCode>(99)), "unknown");
}

TEST(Expected, HoldsAMoveOnlyValue) {
  Expected<std::unique_ptr<int>> expected(std::make_unique<int>(5));
  ASSERT_TRUE(expected);
  EXPECT_TRUE(expected.status().ok());
  EXPECT_EQ(**expected, 5);
  EXPECT_EQ(*expected->get(), 5);
  const std::unique_ptr<int> taken = std::move(*expected);
  EXPECT_EQ(*taken, 5);
}

TEST(Expected, HoldsAnError) {
  const Expected<int> expected(Status(ErrorCode::kBadConfig, "codec 'x' is unknown"));
  EXPECT_FALSE(expected.has_value());
  EXPECT_EQ(to_string(expected.status()), "bad_config: codec 'x' is unknown");
}

Status twice(const Status& first, int& runs) {
  ++runs;
  NF_RETURN_IF_ERROR(first);
  ++runs;
  return {};
}

TEST(ReturnIfError, ReturnsAtTheFirstFailure) {
  int runs = 0;
  EXPECT_TRUE(twice(Status(), runs).ok());
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(twice(Status(ErrorCode::kUnsupported, "no"), runs).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(runs, 3);
}

TEST(DataType, HasASizeAndAName) {
  EXPECT_EQ(size_of(DataType::kFloat32), 4u);
  EXPECT_EQ(size_of(DataType::kBfloat16), 2u);
  EXPECT_EQ(size_of(DataType::kFloat16), 2u);
  EXPECT_EQ(to_string(DataType::kFloat32), "fp32");
  EXPECT_EQ(to_string(DataType::kBfloat16), "bf16");
  EXPECT_EQ(to_string(DataType::kFloat16), "fp16");
  EXPECT_EQ(to_string(static_cast<DataType>(99)), "unknown");
}

}  // namespace
}  // namespace nf
