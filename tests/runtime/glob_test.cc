#include "runtime/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace nf {
namespace {

TEST(Glob, MatchesTheWholeName) {
  EXPECT_TRUE(matches("fc.weight", "fc.weight"));
  EXPECT_FALSE(matches("fc.weight", "fc.weights"));
  EXPECT_FALSE(matches("fc.weight", "xfc.weight"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("a", ""));
}

TEST(Glob, AStarIsAnyTextWithDotsOrNone) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "layer1.0.conv1.weight"));
  EXPECT_TRUE(matches("*.bias", "layer1.0.bn1.bias"));
  EXPECT_FALSE(matches("*.bias", "bias"));
  EXPECT_TRUE(matches("layer*.conv?.*", "layer1.0.conv2.weight"));
  EXPECT_TRUE(matches("a*b*c", "aXbbYbc"));
  EXPECT_FALSE(matches("a*b*c", "aXbbYb"));
  EXPECT_TRUE(matches("***a**", "a"));
  EXPECT_TRUE(matches("*Norm*", "BatchNorm2d"));
}

TEST(Glob, AQuestionMarkIsOneByte) {
  EXPECT_TRUE(matches("bn?.weight", "bn1.weight"));
  EXPECT_FALSE(matches("bn?.weight", "bn.weight"));
  EXPECT_FALSE(matches("bn?.weight", "bn12.weight"));
  EXPECT_TRUE(matches("?*", "a"));
  EXPECT_FALSE(matches("?*", ""));
}

TEST(Glob, EverythingElseIsItself) {
  EXPECT_TRUE(matches("a[0]\\b", "a[0]\\b"));
  EXPECT_FALSE(matches("a[0]", "a0"));
}

// Every star could take every length: tried one by one this would take ages.
TEST(Glob, IsQuickWithManyStars) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern + "b", std::string(2000, 'a')));
  EXPECT_TRUE(matches(pattern, std::string(2000, 'a')));
}

}  // namespace
}  // namespace nf
