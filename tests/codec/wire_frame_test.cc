#include "neuron_fabric/wire_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::same_bytes;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kEpoch = 0x1122334455667788;

Bytes frame_of(const Bytes& payload, bool checksummed = true) {
  const FrameHeader header{
      .codec = codec_fingerprint("waterfill:4"), .epoch = kEpoch, .checksummed = checksummed};
  Bytes frame(kFrameHeaderBytes);
  write_frame_header(header, payload, std::span<std::byte, kFrameHeaderBytes>(frame));
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

Expected<std::span<const std::byte>> open(const Bytes& frame) {
  return open_frame(frame, codec_fingerprint("waterfill:4"), kEpoch);
}

class EveryFrame : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(WireFrame, EveryFrame, testing::Bool(), [](const auto& param) {
  return param.param ? "checksummed" : "unchecked";
});

TEST_P(EveryFrame, OpensToItsPayload) {
  test::Generator random(1);
  for (const std::size_t size : {0u, 1u, 7u, 1000u}) {
    const Bytes payload = random.bytes(size);
    const Bytes frame = frame_of(payload, GetParam());
    const auto opened = open(frame);
    ASSERT_TRUE(opened) << to_string(opened.status());
    EXPECT_TRUE(same_bytes(*opened, payload));
    const auto header = read_frame_header(frame);
    ASSERT_TRUE(header);
    EXPECT_EQ(*header, (FrameHeader{codec_fingerprint("waterfill:4"), kEpoch, size, GetParam()}));
  }
}

TEST_P(EveryFrame, IsRejectedIfTruncatedOrTooLong) {
  test::Generator random(2);
  Bytes frame = frame_of(random.bytes(50), GetParam());
  for (std::size_t size = 0; size < frame.size(); ++size) {
    const auto opened =
        open(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size)));
    ASSERT_FALSE(opened) << size;
    EXPECT_EQ(opened.status().code(), ErrorCode::kCorruptFrame);
  }
  frame.push_back(std::byte{0});
  EXPECT_FALSE(open(frame));
}

TEST_P(EveryFrame, IsRejectedIfABitOfTheHeaderIsFlipped) {
  test::Generator random(3);
  const Bytes frame = frame_of(random.bytes(50), GetParam());
  for (std::size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
    Bytes damaged = frame;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(open(damaged)) << "bit " << bit;
    // A receiver that has only read the header must not use a wrong length.
    EXPECT_FALSE(read_frame_header(std::span(damaged).first(kFrameHeaderBytes))) << "bit " << bit;
  }
}

TEST(WireFrame, IsRejectedIfABitOfAChecksummedPayloadIsFlipped) {
  test::Generator random(4);
  const Bytes frame = frame_of(random.bytes(50));
  for (std::size_t bit = 8 * kFrameHeaderBytes; bit < 8 * frame.size(); ++bit) {
    Bytes damaged = frame;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const auto opened = open(damaged);
    ASSERT_FALSE(opened) << "bit " << bit;
    EXPECT_EQ(opened.status().code(), ErrorCode::kCorruptFrame);
  }
}

TEST(WireFrame, DoesNotCheckAPayloadWithoutChecksum) {
  Bytes frame = frame_of(Bytes(50), false);
  frame.back() = std::byte{1};
  EXPECT_TRUE(open(frame));
}

// The checksum of the header itself is correct. Found by fuzz_frame.
TEST(WireFrame, IsRejectedIfItHasAPayloadChecksumWithoutTheFlag) {
  Bytes frame = frame_of(Bytes(50), false);
  frame[24] = std::byte{1};
  const auto checksum = static_cast<std::uint32_t>(nf::checksum(std::span(frame).first(28)));
  std::memcpy(frame.data() + 28, &checksum, sizeof checksum);
  const auto opened = open(frame);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.status().code(), ErrorCode::kCorruptFrame);
  EXPECT_THAT(opened.status().message(), HasSubstr("but the checksum flag is not"));
}

TEST(WireFrame, DistinguishesForeignFramesFromCorruptOnes) {
  const Bytes frame = frame_of(Bytes(3));
  const auto other_codec = open_frame(frame, codec_fingerprint("waterfill:5"), kEpoch);
  EXPECT_EQ(other_codec.status().code(), ErrorCode::kForeignFrame);
  EXPECT_THAT(other_codec.status().message(), HasSubstr("codec"));
  const auto other_epoch = open_frame(frame, codec_fingerprint("waterfill:4"), kEpoch + 1);
  EXPECT_EQ(other_epoch.status().code(), ErrorCode::kForeignFrame);
  EXPECT_THAT(other_epoch.status().message(), HasSubstr("epoch"));

  Bytes newer = frame;
  newer[2] = std::byte{2};
  EXPECT_EQ(open(newer).status().code(), ErrorCode::kForeignFrame);
  Bytes wrong_magic = frame;
  wrong_magic[0] = std::byte{0};
  EXPECT_EQ(open(wrong_magic).status().code(), ErrorCode::kCorruptFrame);
}

// The two examples of docs/wire_format.md.
TEST(WireFrame, HasTheBytesOfTheExamplesInTheDocs) {
  const Bytes payload = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const auto hex = [&](bool checksummed) {
    Bytes frame(kFrameHeaderBytes);
    write_frame_header(
        {.codec = codec_fingerprint("waterfill:4"), .epoch = 7, .checksummed = checksummed},
        payload, std::span<std::byte, kFrameHeaderBytes>(frame));
    std::string text;
    for (const std::byte byte : frame) {
      text += "0123456789abcdef"[std::to_integer<int>(byte >> 4)];
      text += "0123456789abcdef"[std::to_integer<int>(byte & std::byte{15})];
    }
    return text;
  };
  EXPECT_EQ(hex(true),
            "4e460101f2eb01c60700000000000000040000000000000022"
            "46ac33edf66415");
  EXPECT_EQ(hex(false),
            "4e460100f2eb01c60700000000000000040000000000000000"
            "00000008"
            "56410f");
}

TEST(CodecFingerprint, DiffersBetweenCodecSpecs) {
  EXPECT_EQ(codec_fingerprint("waterfill:4"), codec_fingerprint("waterfill:4"));
  EXPECT_NE(codec_fingerprint("waterfill:4"), codec_fingerprint("waterfill:5"));
  EXPECT_NE(codec_fingerprint("waterfill:4"), codec_fingerprint("waterfill:4+ef"));
}

}  // namespace
}  // namespace nf
