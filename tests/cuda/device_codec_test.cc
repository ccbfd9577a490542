// All codecs on the device write the bytes of the CPU.
#include "cuda/codec/device_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec/make_codecs.h"
#include "cuda/device_codec_harness.h"
#include "cuda/device_test.h"
#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

// The codecs of the generic tests, and options that select other kernels.
std::vector<std::string> device_spellings() {
  std::vector<std::string> spellings = codec_spellings();
  for (const char* variant :
       {"g_ternary+tau=0", "waterfill:1.5+ef", "rotated:1.5+ef", "dynamiq:3",
        "dynamiq+uniform+width=4", "mxfp8+published", "mxfp6+headroom=1", "mxfp6+published",
        "mxfp4+published", "thc+block=64", "thc+block=8192", "thc+saturate=5", "omnireduce:2",
        "omnireduce:4+block=32", "topkc:1", "topkc:4+block=1024"}) {
    spellings.emplace_back(variant);
  }
  return spellings;
}

class DeviceCodecs : public OnDevice<testing::TestWithParam<std::string>> {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    const auto codec = make_codec(GetParam());
    ASSERT_TRUE(codec) << to_string(codec.status());
    granule_ = (*codec)->granule();
  }

  // Every input and type. Stops at the first failure.
  void check(const std::vector<TestPiece>& pieces, std::uint32_t ranks = 3) {
    for (const DataType type : kAllTypes) {
      for (const Input input : kAllInputs) {
        check_on_device(
            {.codec = GetParam(), .type = type, .input = input, .ranks = ranks, .pieces = pieces});
        if (HasFailure()) return;
      }
    }
  }

  std::size_t granule_ = 0;
};

TEST_P(DeviceCodecs, MatchTheCpu) { check({{.count = 4 * granule_}}); }

TEST_P(DeviceCodecs, MatchTheCpuForAnyCount) {
  for (const std::size_t count : {0, 1, 15, 17, 32, 33, 255, 256, 257, 509, 5121}) {
    check({{.count = count}});
    if (HasFailure()) return;
  }
}

TEST_P(DeviceCodecs, MatchTheCpuForManyPieces) {
  const std::vector<TestPiece> pieces = {{.count = 3 * granule_ + 7},
                                         {.granules_before = 2, .count = 5 * granule_, .after = 11},
                                         {.count = 0},
                                         {.granules_before = 1, .count = 1},
                                         {.count = 40},
                                         {.count = granule_},
                                         {.granules_before = 3, .count = 9 * granule_ + 100},
                                         {.count = 0}};
  check(pieces);
  check_on_device({.codec = GetParam(),
                   .type = DataType::kBfloat16,
                   .seed = 4,
                   .pieces = pieces,
                   .has_bounds = true});
  check_on_device({.codec = GetParam(), .seed = 5, .pieces = {{.count = 0}}, .has_bounds = true});
}

TEST_P(DeviceCodecs, MatchTheCpuForOneRankAndForMany) {
  check({{.count = granule_ + 3}}, 1);
  check({{.count = granule_ + 3}}, 2);
  check({{.count = granule_ + 3}}, 21);
}

// More super-groups than one per warp, and more thread blocks than are resident.
TEST_P(DeviceCodecs, MatchTheCpuForLargeBatches) {
  check_on_device({.codec = GetParam(),
                   .type = DataType::kBfloat16,
                   .ranks = 2,
                   .seed = 2,
                   .pieces = {{.count = 3'000'000}, {.count = 123 * granule_ + 5}}});
  check_on_device({.codec = GetParam(),
                   .type = DataType::kFloat32,
                   .ranks = 2,
                   .seed = 3,
                   .pieces = {{.count = 1'000'001}}});
}

INSTANTIATE_TEST_SUITE_P(All, DeviceCodecs, testing::ValuesIn(device_spellings()),
                         [](const auto& test) { return test_name(test.param); });

class DeviceCodec : public OnDevice<> {};

// So many super-groups that a warp processes several rounds of them.
TEST_F(DeviceCodec, MatchesTheCpuForManyRoundsOfSuperGroups) {
  for (const char* codec : {"waterfill:4", "waterfill+width=4", "dynamiq:5", "dynamiq+width=4",
                            "rotated:3", "rotated+width=4"}) {
    for (const std::size_t count : {17'000'003, 36'000'001}) {
      check_on_device({.codec = codec,
                       .type = DataType::kBfloat16,
                       .ranks = 2,
                       .seed = 6,
                       .pieces = {{.count = count}}});
      if (HasFailure()) return;
    }
  }
}

TEST(MakeDeviceCodec, SupportsEveryBuiltinCodec) {
  for (const CodecEntry& entry : builtin_codecs()) {
    const auto codec = make_codec(entry.example);
    ASSERT_TRUE(codec) << to_string(codec.status());
    const auto device = cuda::make_device_codec(**codec);
    EXPECT_TRUE(device) << to_string(device.status());
  }
}

TEST(MakeDeviceCodec, RejectsOtherCodecs) {
  const CodecEntry own{"own", "own", "a user's codec", make_bf16};
  const auto codec = make_codec("own", {&own, 1});
  ASSERT_TRUE(codec) << to_string(codec.status());
  const auto device = cuda::make_device_codec(**codec);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.status().code(), ErrorCode::kUnsupported);
  EXPECT_NE(device.status().message().find("waterfill"), std::string::npos);
}

}  // namespace
}  // namespace nf::test
