// The contract of merge() in neuron_fabric/codec.h, for every codec whose messages merge and every
// ISA.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

class OneCodec : public testing::TestWithParam<CodecCase> {
 protected:
  const std::unique_ptr<Codec> codec_ = GetParam().make();
};

class EveryMergingCodec : public OneCodec {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryMergingCodec,
                         testing::ValuesIn(codec_cases([](const Codec& codec) {
                           return merges_messages(codec.kind());
                         })),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryMergingCodec, WritesTheSameBytesAtAnyAlignment) {
  Generator random(9);
  for (const std::size_t count : kCounts) {
    if (count > 10000) continue;
    SCOPED_TRACE(count);
    const std::vector<TypedValues> by_rank = ranks_of(random, 2, count);
    const CodecContext context(*codec_, by_rank);
    const Slice slice = context.whole();
    const Message first = encode(*codec_, slice, {0, 1}, by_rank[0].view());
    const Message second = encode(*codec_, slice, {1, 1}, by_rank[1].view());
    const Message merged = merge(*codec_, slice, {0, 1}, first, {1, 1}, second, 1);
    // With other initial contents, so that a byte that is not written differs.
    GuardedBytes again(merged.size(), 3, 0x5a);
    ASSERT_TRUE(codec_->merge(slice, {0, 1}, first, {1, 1}, second, 1, again.bytes()).ok());
    EXPECT_TRUE(again.guards_intact());
    EXPECT_TRUE(same_bytes(again.bytes(), merged));
    for (const std::size_t offset : {1u, 4u, 7u}) {
      Message moved(offset);  // ends with the message, so that reading past it is detected
      moved.insert(moved.end(), second.begin(), second.end());
      EXPECT_TRUE(same_bytes(
          merge(*codec_, slice, {0, 1}, first, {1, 1}, std::span(moved).subspan(offset), 1, offset),
          merged));
    }
  }
}

TEST_P(EveryMergingCodec, HopEqualsMergingTheRanksOwnMessage) {
  for (const DataType type : kAllTypes) {
    SCOPED_TRACE(to_string(type));
    Generator random(10);
    for (const std::size_t count : kCounts) {
      if (type != DataType::kFloat32 && count > 10000) continue;
      SCOPED_TRACE(count);
      std::vector<TypedValues> by_rank = ranks_of(random, 3, count, type);
      by_rank.emplace_back(type, random.hostile(count));
      const CodecContext context(*codec_, by_rank);
      const Slice slice = context.whole();
      Message message = encode(*codec_, slice, {0, 1}, by_rank[0].view());
      for (std::uint32_t rank = 1; rank < by_rank.size(); ++rank) {
        const Message own = encode(*codec_, slice, {rank, 1}, by_rank[rank].view());
        const Origin origin{.encoder = rank - 1, .contributions = rank};
        const Message hop =
            decode_add_encode(*codec_, slice, origin, message, by_rank[rank].view(), rank);
        ASSERT_TRUE(same_bytes(merge(*codec_, slice, origin, message, {rank, 1}, own, rank), hop))
            << rank + 1 << " contributions";
        message = hop;
      }
    }
  }
}

TEST_P(EveryMergingCodec, MergesSlicesToTheBitsOfTheWhole) {
  Generator random(11);
  const std::size_t count = 3 * codec_->granule() + 77;
  const std::size_t cut = 2 * codec_->granule();
  const std::vector<TypedValues> by_rank = ranks_of(random, 2, count);
  const CodecContext context(*codec_, by_rank);
  const auto sum_of = [&](const Slice& slice) {
    std::vector<Message> messages;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const std::vector<float> all = by_rank[rank].widened();
      const TypedValues values(DataType::kFloat32,
                               std::span(all).subspan(slice.first, slice.count));
      messages.push_back(encode(*codec_, slice, {rank, 1}, values.view()));
    }
    const Message sum = merge(*codec_, slice, {0, 1}, messages[0], {1, 1}, messages[1], 1);
    return decode(*codec_, slice, {1, 2}, sum);
  };
  std::vector<float> parts = sum_of(context.part(0, cut));
  const std::vector<float> rest = sum_of(context.part(cut, count - cut));
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_TRUE(same_bits(parts, sum_of(context.whole())));
}

class EveryCountingCodec : public OneCodec {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryCountingCodec,
                         testing::ValuesIn(codec_cases([](const Codec& codec) {
                           return codec.kind() == CodecKind::kCounting;
                         })),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryCountingCodec, AddsTwoRanksInEitherOrder) {
  Generator random(12);
  for (const std::size_t count : kFewCounts) {
    std::vector<TypedValues> by_rank = ranks_of(random, 1, count);
    by_rank.emplace_back(DataType::kFloat32, random.hostile_finite(count));
    const CodecContext context(*codec_, by_rank);
    const std::uint32_t forth[] = {0, 1};
    const std::uint32_t back[] = {1, 0};
    EXPECT_TRUE(same_bytes(chain(*codec_, context.whole(), by_rank, back),
                           chain(*codec_, context.whole(), by_rank, forth)));
  }
}

TEST_P(EveryCountingCodec, MergesTwoMessagesInEitherOrder) {
  for (int round = 0; round < rounds_of(8); ++round) {
    Generator random(13 + static_cast<std::uint64_t>(round));
    const std::size_t count = random.below(6000);
    std::vector<TypedValues> by_rank;
    for (int rank = 0; rank < 7; ++rank) {
      by_rank.emplace_back(DataType::kFloat32, random.hostile(count));
    }
    const CodecContext context(*codec_, by_rank);
    const Slice slice = context.whole();
    const std::vector<std::uint32_t> order = {0, 1, 2, 3, 4, 5, 6};
    const auto some = static_cast<std::uint32_t>(1 + random.below(6));
    const Origin first{.encoder = some - 1, .contributions = some};
    const Origin second{.encoder = 6, .contributions = 7 - some};
    const Message a = chain(*codec_, slice, by_rank, std::span(order).first(some));
    const Message b = chain(*codec_, slice, by_rank, std::span(order).subspan(some));
    EXPECT_TRUE(same_bytes(merge(*codec_, slice, second, b, first, a, 3),
                           merge(*codec_, slice, first, a, second, b, 6)))
        << some << " and " << 7 - some << " contributions of " << count << " values";
  }
}

// Counting codecs without saturation: sums of any size are exact.
class EveryExactCodec : public OneCodec {
 protected:
  // Half of the values are zero, so that scales and their sums are exact.
  static std::vector<TypedValues> exact_ranks(Generator& random, std::size_t ranks) {
    std::vector<TypedValues> by_rank;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<float> values(5120 + 64);
      for (std::size_t i = 0; i < values.size(); i += 2) {
        values[i + random.below(2)] = random.below(2) != 0 ? 0x1p-3f : -0x1p-3f;
      }
      by_rank.emplace_back(DataType::kFloat32, values);
    }
    return by_rank;
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, EveryExactCodec,
                         testing::ValuesIn(codec_cases([](const Codec& codec) {
                           return codec.kind() == CodecKind::kCounting &&
                                  !codec.spec().options.contains("saturate");
                         })),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryExactCodec, WritesTheSameBytesForAnyOrderOfRanks) {
  Generator random(14);
  const std::vector<TypedValues> by_rank = exact_ranks(random, 4);
  const CodecContext context(*codec_, by_rank);
  std::vector<std::uint32_t> order = {0, 1, 2, 3};
  const Message expected = chain(*codec_, context.whole(), by_rank, order);
  while (std::next_permutation(order.begin(), order.end())) {
    ASSERT_TRUE(same_bytes(chain(*codec_, context.whole(), by_rank, order), expected))
        << order[0] << order[1] << order[2] << order[3];
  }
}

TEST_P(EveryExactCodec, WritesTheSameBytesForAnyTree) {
  for (const std::size_t ranks : {2u, 3u, 5u, 8u, 17u}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    Generator random(15);
    const std::vector<TypedValues> by_rank = exact_ranks(random, ranks);
    const CodecContext context(*codec_, by_rank);
    const Slice slice = context.whole();
    std::vector<std::uint32_t> order(ranks);
    std::iota(order.begin(), order.end(), 0);
    const Message expected = chain(*codec_, slice, by_rank, order);
    for (int tree = 0; tree < 3; ++tree) {
      std::vector<std::pair<Origin, Message>> messages;
      for (const std::uint32_t rank : order) {
        messages.push_back({{rank, 1}, encode(*codec_, slice, {rank, 1}, by_rank[rank].view())});
      }
      while (messages.size() > 1) {
        std::swap(messages[random.below(messages.size())], messages.back());
        const auto [origin, message] = messages.back();
        messages.pop_back();
        auto& [total, sum] = messages[random.below(messages.size())];
        sum = merge(*codec_, slice, total, sum, origin, message, total.encoder);
        total.contributions += origin.contributions;
      }
      EXPECT_TRUE(same_bytes(messages.front().second, expected));
    }
  }
}

// Up to the widest codes: the sum of two equal messages is exactly twice as large.
TEST_P(EveryExactCodec, DoublesAMessageByMergingItWithItself) {
  Generator random(16);
  const std::vector<TypedValues> by_rank = ranks_of(random, 1, 5120 + 33);
  const CodecContext context(*codec_, by_rank);
  Slice slice = context.whole();
  slice.ranks = codec_->max_ranks();
  Origin origin{.encoder = 0, .contributions = 1};
  Message message = encode(*codec_, slice, origin, by_rank[0].view());
  std::vector<float> expected = decode(*codec_, slice, origin, message);
  while (2 * origin.contributions <= slice.ranks) {
    message = merge(*codec_, slice, origin, message, origin, message, 0);
    origin.contributions *= 2;
    for (float& value : expected) value *= 2;
    ASSERT_TRUE(same_bits(decode(*codec_, slice, origin, message), expected))
        << origin.contributions << " contributions";
  }
}

}  // namespace
}  // namespace nf::test
