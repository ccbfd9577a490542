#include <gtest/gtest.h>

#include <set>
#include <string>

#include "neuron_fabric/codec.h"

namespace nf {
namespace {

TEST(CodecRegistry, ListsEachCodecOnceWithAValidExample) {
  std::set<std::string_view> names;
  for (const CodecEntry& entry : builtin_codecs()) {
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(names.insert(entry.name).second);
    EXPECT_FALSE(entry.summary.empty());
    const auto codec = make_codec(entry.example);
    ASSERT_TRUE(codec) << to_string(codec.status());
    EXPECT_EQ((*codec)->spec().name, entry.name);
    EXPECT_GE((*codec)->granule(), 1u);
  }
  EXPECT_TRUE(names.contains("fp32"));
  EXPECT_TRUE(names.contains("bf16"));
  EXPECT_TRUE(names.contains("waterfill"));
}

TEST(CodecRegistry, RejectsUnknownNamesWithAHint) {
  const auto near = make_codec("waterfil:4");
  ASSERT_FALSE(near);
  EXPECT_EQ(near.status().code(), ErrorCode::kBadConfig);
  EXPECT_EQ(near.status().message(), "codec 'waterfil' is unknown; did you mean 'waterfill'?");
  const auto far = make_codec("zstd");
  ASSERT_FALSE(far);
  EXPECT_EQ(far.status().code(), ErrorCode::kBadConfig);
  EXPECT_EQ(far.status().message(), "codec 'zstd' is unknown; `nf info` lists the codecs");
}

TEST(CodecRegistry, RejectsInvalidCodecSpecs) {
  EXPECT_EQ(make_codec("").status().code(), ErrorCode::kBadConfig);
  EXPECT_EQ(make_codec("waterfill:").status().code(), ErrorCode::kBadConfig);
}

TEST(CodecRegistry, AcceptsATableOfTheCaller) {
  const CodecEntry mine[] = {{"mine", "mine", "a custom codec", builtin_codecs().front().make}};
  EXPECT_TRUE(make_codec("mine", mine));
  const auto codec = make_codec("fp32", mine);
  ASSERT_FALSE(codec);
  EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig);
}

TEST(CodecKind, HasNames) {
  EXPECT_EQ(to_string(CodecKind::kDense), "dense");
  EXPECT_EQ(to_string(CodecKind::kCounting), "counting");
  EXPECT_EQ(to_string(CodecKind::kMerging), "merging");
  EXPECT_EQ(to_string(CodecKind::kRequantising), "requantising");
  EXPECT_EQ(to_string(CodecKind::kSparse), "sparse");
  EXPECT_EQ(to_string(static_cast<CodecKind>(99)), "unknown");
}

}  // namespace
}  // namespace nf
