#include "neuron_fabric/codec_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "support/generator.h"

namespace nf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using testing::Pair;

TEST(CodecSpec, ParsesAName) {
  const Expected<CodecSpec> spec = CodecSpec::parse("fp32");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->name, "fp32");
  EXPECT_FALSE(spec->value);
  EXPECT_TRUE(spec->options.empty());
}

TEST(CodecSpec, ParsesAValueAndOptions) {
  const Expected<CodecSpec> spec = CodecSpec::parse("waterfill:2.5+width=4+ef");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->name, "waterfill");
  EXPECT_EQ(spec->value, 2.5);
  EXPECT_THAT(spec->options, ElementsAre(Pair("ef", ""), Pair("width", "4")));
}

TEST(CodecSpec, RejectsMalformedText) {
  for (const char* text :
       {"", ":4", "+ef", "water fill", "waterfill:", "waterfill:four", "waterfill:4x", "a+", "a+=1",
        "a+b=", "a++b", "a+b+b", "a+b=1+b=2", "a:1:2", "a-b", "waterfill: 4", "waterfill:4 "}) {
    const Expected<CodecSpec> spec = CodecSpec::parse(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.status().code(), ErrorCode::kBadConfig) << text;
    EXPECT_THAT(spec.status().message(), HasSubstr("name[:value][+option[=value]]"));
  }
}

TEST(CodecSpec, RejectsNonFiniteValues) {
  for (const char* text : {"a:nan", "a:inf", "a:-inf", "a:1e999"}) {
    EXPECT_FALSE(CodecSpec::parse(text)) << text;
  }
}

TEST(CodecSpec, RejectsLongTextWithAShortMessage) {
  const Expected<CodecSpec> spec = CodecSpec::parse(std::string(100000, 'a'));
  ASSERT_FALSE(spec);
  EXPECT_LT(spec.status().message().size(), 500u);
}

TEST(CodecSpec, HasACanonicalText) {
  for (const char* text : {"fp32", "waterfill:4", "waterfill:2.5", "g_binary+majority",
                           "waterfill+alpha=0.5+width=4", "x:-3", "x:0.1", "x:1e-07"}) {
    EXPECT_EQ(CodecSpec::parse(text)->to_string(), text);
  }
  EXPECT_EQ(CodecSpec::parse("a+z=1+b")->to_string(), "a+b+z=1");
  EXPECT_EQ(CodecSpec::parse("a:4.0")->to_string(), "a:4");
}

TEST(CodecSpec, ParsesItsOwnText) {
  test::Generator random(1);
  const auto word = [&] {
    std::string text;
    for (std::uint64_t i = 0; i <= random.below(6); ++i) text += "abcxyz_0129"[random.below(11)];
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    CodecSpec spec;
    spec.name = word();
    if (random.below(2) != 0) {
      spec.value = std::ldexp(random.normal(), static_cast<int>(random.below(140)) - 70);
    }
    for (std::uint64_t i = 0; i < random.below(4); ++i) {
      spec.options[word()] = random.below(2) != 0 ? word() : "";
    }
    const Expected<CodecSpec> again = CodecSpec::parse(spec.to_string());
    ASSERT_TRUE(again) << spec.to_string() << ": " << to_string(again.status());
    ASSERT_EQ(*again, spec) << spec.to_string();
  }
}

// The canonical text may be longer than the parsed text: 1e3 becomes 1000.
TEST(CodecSpec, ParsesItsOwnTextNearTheMaximumLength) {
  for (std::size_t size = 190; size <= 210; ++size) {
    const std::string text = "a:1e3+" + std::string(size - 6, 'b');
    const Expected<CodecSpec> spec = CodecSpec::parse(text);
    if (!spec) continue;
    const Expected<CodecSpec> again = CodecSpec::parse(spec->to_string());
    ASSERT_TRUE(again) << size << " characters: " << to_string(again.status());
    EXPECT_EQ(*again, *spec);
  }
}

constexpr std::array<std::string_view, 2> kKnown = {"width", "alpha"};

TEST(CodecSpecAllow, AcceptsKnownOptions) {
  EXPECT_TRUE(CodecSpec::parse("w:4+width=3+alpha=1")->allow(true, kKnown).ok());
  EXPECT_TRUE(CodecSpec::parse("w")->allow(false, {}).ok());
}

TEST(CodecSpecAllow, RejectsAnUnexpectedValue) {
  const Status status = CodecSpec::parse("fp32:4")->allow(false, {});
  EXPECT_EQ(status.code(), ErrorCode::kBadConfig);
  EXPECT_EQ(status.message(), "codec 'fp32' takes no value; omit ':4'");
}

TEST(CodecSpecAllow, SuggestsTheNearestOption) {
  const Status near = CodecSpec::parse("w+widht=3")->allow(true, kKnown);
  EXPECT_EQ(near.code(), ErrorCode::kBadConfig);
  EXPECT_EQ(near.message(), "codec 'w' has no option 'widht'; did you mean 'width'?");
  const Status far = CodecSpec::parse("w+zzzzzzzzz=3")->allow(true, kKnown);
  EXPECT_EQ(far.message(), "codec 'w' has no option 'zzzzzzzzz'; its options are width, alpha");
  const Status none = CodecSpec::parse("w+width=3")->allow(true, {});
  EXPECT_EQ(none.message(), "codec 'w' has no option 'width'; it takes no options");
}

TEST(CodecSpecNumber, AcceptsNumbersInTheRangeOnly) {
  const CodecSpec spec = *CodecSpec::parse("w+width=3+bad=x+empty+nan=nan");
  EXPECT_EQ(*spec.number("width", 7, 1, 10), 3);
  EXPECT_EQ(*spec.number("absent", 7, 1, 10), 7);
  EXPECT_EQ(*spec.number("width", 7, 3, 3), 3);
  for (const char* option : {"bad", "empty", "nan"}) {
    EXPECT_EQ(spec.number(option, 7, 1, 10).status().code(), ErrorCode::kBadConfig) << option;
  }
  const Expected<double> outside = spec.number("width", 7, 4, 10);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.status().message(),
            "codec 'w': option 'width=3' must be a number from 4 to 10");
}

TEST(CodecSpecFlag, IsPresentOrAbsentAndHasNoValue) {
  const CodecSpec spec = *CodecSpec::parse("w+ef+width=3");
  EXPECT_TRUE(*spec.flag("ef"));
  EXPECT_FALSE(*spec.flag("absent"));
  const Status status = spec.flag("width").status();
  EXPECT_EQ(status.code(), ErrorCode::kBadConfig);
  EXPECT_EQ(status.message(), "codec 'w': option 'width' takes no value; omit '=3'");
}

TEST(Nearest, ReturnsTheWordOfSmallestEditDistanceUnlessItIsFar) {
  constexpr std::array<std::string_view, 3> kWords = {"waterfill", "dynamiq", "fp32"};
  EXPECT_EQ(nearest("waterfil", kWords), "waterfill");
  EXPECT_EQ(nearest("watrefill", kWords), "waterfill");
  EXPECT_EQ(nearest("fp3", kWords), "fp32");
  EXPECT_EQ(nearest("dynamic", kWords), "dynamiq");
  EXPECT_EQ(nearest("powersgd", kWords), "");
  EXPECT_EQ(nearest("anything", {}), "");
}

}  // namespace
}  // namespace nf
