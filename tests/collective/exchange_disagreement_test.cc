// If the calls of an exchange differ between ranks, the error names the codecs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective/exchange.h"
#include "collective/exchange_cases.h"
#include "support/ranks.h"

namespace nf::test {
namespace {

// A call that differs on rank 1 in one part.
struct Difference {
  std::uint32_t part = 0;
  std::uint32_t values_of = 0;  // the part whose values it has instead
  DataType type = DataType::kFloat32;
  std::vector<std::string> codecs = {"waterfill:4", "g_binary"};
};

// The error, which is the same on all ranks.
std::string disagreement(const Difference& of_rank_1) {
  const Case one{.ranks = 3};
  std::vector<std::string> texts(one.ranks);
  on_all_ranks(one.ranks, [&](Transport& transport) {
    const Difference own = transport.rank() == 1 ? of_rank_1 : Difference();
    Together together(transport, one, own.codecs);
    std::vector<PartValues> values;
    for (std::uint32_t part = 0; part < together.size(); ++part) {
      Case typed = one;
      if (part == own.part) typed.type = own.type;
      values.emplace_back(typed, part == own.part ? own.values_of : part, 0, transport.rank());
    }
    const Status status = together.run(call_of(0), values);
    EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
    texts[transport.rank()] = status.message();

    Together again(transport, one);
    EXPECT_TRUE(again.run(1).ok()) << "the transport is intact";
  });
  for (const std::string& text : texts) EXPECT_THAT(text, testing::HasSubstr("rank"));
  return texts[0];
}

TEST(ExchangeDisagreement, NamesTheCodecThatDiffers) {
  using testing::HasSubstr;
  EXPECT_THAT(disagreement({.part = 1, .values_of = 2}),
              HasSubstr("; the parameters of g_binary differ"));
  EXPECT_THAT(disagreement({.part = 0, .values_of = 2}),
              HasSubstr("; the parameters of waterfill:4 differ"));
  EXPECT_THAT(disagreement({.part = 1, .values_of = 1, .type = DataType::kBfloat16}),
              HasSubstr("but their parameters of g_binary differ in name, shape or type"));
  EXPECT_THAT(disagreement({.codecs = {"waterfill:4", "g_ternary"}}),
              HasSubstr("has codecs waterfill:4,g_binary, rank 1 has waterfill:4,g_ternary"));
  EXPECT_THAT(disagreement({.codecs = {"waterfill:4"}}),
              HasSubstr("has codecs waterfill:4,g_binary, rank 1 has waterfill:4"));
}

// More codecs than the agreement has room to name: still a disagreement.
TEST(ExchangeDisagreement, FindsDifferencesBeyondTheNamedCodecs) {
  const std::vector<std::string> many(12, "waterfill:2+ef");
  on_all_ranks(2, [&](Transport& transport) {
    const Case one{.ranks = 2};
    std::vector<std::string> codecs = many;
    if (transport.rank() == 1) codecs[11] = "waterfill:3+ef";
    Together together(transport, one, codecs);
    EXPECT_EQ(together.run(0).code(), ErrorCode::kDisagreement);
    Together same(transport, one, many);
    EXPECT_TRUE(same.run(1).ok());
  });
}

}  // namespace
}  // namespace nf::test
