#include "runtime/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace nf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view text) {
  const Expected<Json> json = parse_json(text);
  EXPECT_FALSE(json) << text;
  EXPECT_EQ(json.status().code(), ErrorCode::kBadConfig);
  return json.status().message();
}

TEST(ParseJson, ReturnsTheValues) {
  const Expected<Json> json = parse_json(R"({"a": [1, -2, 2.5, "x", null, true, {}]})");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->dump(), R"({"a":[1,-2,2.5,"x",null,true,{}]})");
}

TEST(ParseJson, ReportsThePositionOfASyntaxError) {
  EXPECT_THAT(error_of("{\"a\":\n 1,}"), StartsWith("parse error at line 2, column 4"));
  EXPECT_THAT(error_of(""), HasSubstr("unexpected end of input"));
  EXPECT_THAT(error_of("{} {}"), HasSubstr("line 1, column 4"));
  EXPECT_THAT(error_of("[1e999]"), HasSubstr("number overflow"));
  EXPECT_FALSE(parse_json("[nan]"));
  EXPECT_FALSE(parse_json("// remark\n{}"));
}

TEST(ParseJson, RejectsADuplicateKey) {
  EXPECT_EQ(error_of(R"({"a": 1, "a": 1})"), "key 'a' is given twice");
  EXPECT_EQ(error_of(R"({"a": [{}, {"b": {"c": 1, "d": 2, "c": 3}}]})"),
            "a[1].b: key 'c' is given twice");
  EXPECT_TRUE(parse_json(R"({"a": {"a": 1}, "b": {"a": 1}})"));
}

TEST(ParseJson, RejectsDeepNesting) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth)));
  EXPECT_THAT(error_of(nested(kMaxJsonDepth + 1)), HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(error_of(std::string(1'000'000, '[')), HasSubstr("nested more than 32 deep"));
}

TEST(ParseJson, HasShortPrintableMessages) {
  for (const std::string& text :
       {"\"" + std::string(100'000, 'x'), std::string("\"\xff\xfe\""), std::string("[\x01\x02]"),
        "{\"" + std::string(5000, 'k') + "\": 1, \"" + std::string(5000, 'k') + "\": 1}"}) {
    const std::string message = error_of(text);
    EXPECT_LT(message.size(), 500u);
    for (const char c : message) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << message;
  }
}

TEST(InQuotes, TruncatesBetweenCharacters) {
  EXPECT_EQ(in_quotes("a\nb\x7f"), "'a?b?'");
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "\xc3\xa4";
  EXPECT_EQ(in_quotes(umlauts), "'" + umlauts.substr(0, 64) + "...'");
  EXPECT_EQ(in_quotes("x" + umlauts), "'x" + umlauts.substr(0, 62) + "...'");
}

class JsonObjectTest : public testing::Test {
 protected:
  // The object of `text` with the known keys "text", "texts", "number" and "whole".
  JsonObject open(std::string_view text) {
    json_ = *parse_json(text);
    return *JsonObject::open(json_, "here", kKeys);
  }

  static std::string whole_json(const std::string& number) { return "{\"whole\": " + number + "}"; }

  static constexpr std::array<std::string_view, 4> kKeys = {"text", "texts", "number", "whole"};
  Json json_;
};

TEST_F(JsonObjectTest, ReadsPresentKeysOnly) {
  const JsonObject object =
      open(R"({"text": "a", "texts": ["b", "c"], "number": 2, "whole": 3.0})");
  std::string text;
  std::vector<std::string> texts;
  double number = 0;
  std::uint64_t whole = 0;
  std::uint32_t absent = 7;
  EXPECT_TRUE(object.read("text", text).ok());
  EXPECT_TRUE(object.read("texts", texts).ok());
  EXPECT_TRUE(object.read("number", number).ok());
  EXPECT_TRUE(object.read("whole", whole).ok());
  EXPECT_TRUE(object.read("absent", absent).ok());
  EXPECT_EQ(text, "a");
  EXPECT_THAT(texts, ElementsAre("b", "c"));
  EXPECT_EQ(number, 2);
  EXPECT_EQ(whole, 3u);
  EXPECT_EQ(absent, 7u);
}

TEST_F(JsonObjectTest, RejectsOtherTypes) {
  const JsonObject object = open(R"({"text": 1, "texts": ["b", 1], "number": "2"})");
  std::string text;
  std::vector<std::string> texts;
  double number = 0;
  EXPECT_EQ(object.read("text", text).message(), "here.text is not a string in quotes");
  EXPECT_THAT(object.read("texts", texts).message(), StartsWith("here.texts is not a list"));
  EXPECT_EQ(object.read("number", number).message(), "here.number is not a number");
}

TEST_F(JsonObjectTest, RejectsNumbersThatAreNotWhole) {
  for (const char* text : {"-1", "0.5", "1e300", "9007199254740993", "true", "\"1\"", "null"}) {
    const JsonObject object = open(whole_json(text));
    std::uint64_t whole = 5;
    EXPECT_THAT(object.read("whole", whole).message(), HasSubstr("not a whole number")) << text;
    EXPECT_EQ(whole, 5u);
  }
  std::uint32_t narrow = 5;
  EXPECT_THAT(open(whole_json("4294967296")).read("whole", narrow).message(),
              HasSubstr("below 2^32"));
  EXPECT_TRUE(open(whole_json("4294967295")).read("whole", narrow).ok());
  EXPECT_EQ(narrow, 4294967295u);
}

TEST_F(JsonObjectTest, ReadsOnlyTrueAndFalseAsBool) {
  bool flag = false;
  EXPECT_TRUE(open(whole_json("true")).read("whole", flag).ok());
  EXPECT_TRUE(flag);
  for (const char* text : {"1", "\"true\"", "null", "[]"}) {
    EXPECT_EQ(open(whole_json(text)).read("whole", flag).message(),
              "here.whole is not true or false");
    EXPECT_TRUE(flag);
  }
}

TEST_F(JsonObjectTest, NamesUnknownAndMissingKeys) {
  json_ = *parse_json(R"({"txets": []})");
  EXPECT_EQ(JsonObject::open(json_, "here", kKeys).status().message(),
            "here: unknown key 'txets'; did you mean 'texts'?");
  EXPECT_EQ(JsonObject::open(json_, "", kKeys).status().message(),
            "unknown key 'txets'; did you mean 'texts'?");
  json_ = *parse_json("[]");
  EXPECT_EQ(JsonObject::open(json_, "here", kKeys).status().message(),
            "here: expected an object, {...}");
  EXPECT_EQ(open("{}").require(kKeys).message(), "here.text is missing");
}

}  // namespace
}  // namespace nf
