// The promises of neuron_fabric/codec.h, kept by every codec in the form of every ISA.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/exchange.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

class EveryCodec : public testing::TestWithParam<CodecCase> {
 protected:
  const std::unique_ptr<Codec> codec_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Registry, EveryCodec, testing::ValuesIn(codec_cases()),
                         [](const auto& param) { return test_name(param.param); });

// Correlated ranks, as the ranks of one job are.
std::vector<TypedValues> ranks_of(Generator& random, std::size_t ranks, std::size_t count,
                                  DataType type = DataType::kFloat32) {
  const std::vector<float> common = random.mixture(count);
  std::vector<TypedValues> by_rank;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<float> values = random.mixture(count);
    for (std::size_t i = 0; i < count; ++i) values[i] += common[i];
    by_rank.emplace_back(type, values);
  }
  return by_rank;
}

TEST_P(EveryCodec, WritesExactlyItsEncodedSizeAndTheSameBytesTwice) {
  Generator random(1);
  for (const std::size_t count : kCounts) {
    SCOPED_TRACE(count);
    const std::vector<TypedValues> by_rank = ranks_of(random, 2, count);
    const Exchange exchange(*codec_, by_rank);
    const Slice slice = exchange.whole();
    const Message first = encode(*codec_, slice, {0, 1}, by_rank[0].view());
    // Over other rubbish: a byte that is not written differs.
    FencedBytes second(codec_->encoded_size(slice, 1), 1, 0x5a);
    ASSERT_TRUE(codec_->encode(slice, {0, 1}, by_rank[0].view(), second.bytes()).ok());
    EXPECT_TRUE(second.fences_stand());
    EXPECT_TRUE(same_bytes(second.bytes(), first));

    const Message hop = decode_add_encode(*codec_, slice, {0, 1}, first, by_rank[1].view(), 1);
    FencedBytes again(codec_->encoded_size(slice, 2), 3, 0x5a);
    ASSERT_TRUE(
        codec_->decode_add_encode(slice, {0, 1}, first, by_rank[1].view(), {1, 2}, again.bytes())
            .ok());
    EXPECT_TRUE(again.fences_stand());
    EXPECT_TRUE(same_bytes(again.bytes(), hop));
  }
}

TEST_P(EveryCodec, TakesStatisticsOfTheValuesAlone) {
  Generator random(2);
  for (const std::size_t count : kCounts) {
    SCOPED_TRACE(count);
    const std::vector<float> values = random.mixture(count);
    const Message at_once = statistics_of(*codec_, ConstValues(values));
    const TypedValues elsewhere(DataType::kFloat32, values, 12);
    EXPECT_TRUE(same_bytes(statistics_of(*codec_, elsewhere.view(), 1), at_once));
  }
}

TEST_P(EveryCodec, TakesEveryTypeByItsExactValue) {
  for (const DataType type : kAllTypes) {
    SCOPED_TRACE(to_string(type));
    Generator random(3);
    for (const std::size_t count : kCounts) {
      if (count > 10000) continue;
      SCOPED_TRACE(count);
      const std::vector<TypedValues> narrow = ranks_of(random, 2, count, type);
      std::vector<TypedValues> wide;
      for (const TypedValues& values : narrow) {
        wide.emplace_back(DataType::kFloat32, values.widened());
      }
      const Exchange exchange(*codec_, narrow);
      EXPECT_TRUE(same_bytes(exchange.statistics(), Exchange(*codec_, wide).statistics()));
      const Slice slice = exchange.whole();
      const Message message = encode(*codec_, slice, {0, 1}, narrow[0].view(), 1);
      EXPECT_TRUE(same_bytes(message, encode(*codec_, slice, {0, 1}, wide[0].view())));
      EXPECT_TRUE(
          same_bytes(decode_add_encode(*codec_, slice, {0, 1}, message, narrow[1].view(), 1, 5),
                     decode_add_encode(*codec_, slice, {0, 1}, message, wide[1].view(), 1)));
    }
  }
}

TEST_P(EveryCodec, DecodesIntoEveryTypeByOneRounding) {
  for (const DataType type : kAllTypes) {
    SCOPED_TRACE(to_string(type));
    Generator random(4);
    for (const std::size_t count : kCounts) {
      if (type != DataType::kFloat32 && count > 10000) continue;
      SCOPED_TRACE(count);
      const std::vector<TypedValues> by_rank = ranks_of(random, 2, count, type);
      const Exchange exchange(*codec_, by_rank);
      const Slice slice = exchange.whole();
      const Message message = encode(*codec_, slice, {0, 1}, by_rank[0].view());
      const std::vector<float> decoded = decode(*codec_, slice, {0, 1}, message);
      EXPECT_TRUE(
          same_bits(decode(*codec_, slice, {0, 1}, message, type), rounded_to(type, decoded)));
      // decode_add onto v equals v + decoded.
      std::vector<float> sum = by_rank[1].widened();
      for (std::size_t i = 0; i < count; ++i) sum[i] += decoded[i];
      EXPECT_TRUE(same_bits(decode_add(*codec_, slice, {0, 1}, message, by_rank[1]),
                            rounded_to(type, sum)));
    }
  }
}

TEST_P(EveryCodec, TakesMessagesAndValuesAtAnyAlignment) {
  Generator random(5);
  for (const DataType type : kAllTypes) {
    const std::vector<TypedValues> by_rank = ranks_of(random, 2, 1025, type);
    const Exchange exchange(*codec_, by_rank);
    const Slice slice = exchange.whole();
    const Message message = encode(*codec_, slice, {0, 1}, by_rank[0].view());
    const Message hop = decode_add_encode(*codec_, slice, {0, 1}, message, by_rank[1].view(), 1);
    const std::vector<float> decoded = decode(*codec_, slice, {0, 1}, message, type);
    const std::vector<float> sum = decode_add(*codec_, slice, {0, 1}, message, by_rank[1]);
    for (const std::size_t offset : {1u, 2u, 3u, 4u, 7u, 8u, 32u}) {
      SCOPED_TRACE(testing::Message() << to_string(type) << ", " << offset << " bytes off");
      Message moved(offset);  // ends with the message, so that reading on is seen
      moved.insert(moved.end(), message.begin(), message.end());
      const std::span<const std::byte> wire = std::span(moved).subspan(offset);
      const TypedValues first(type, by_rank[0].widened(), offset);
      const TypedValues second(type, by_rank[1].widened(), offset);
      EXPECT_TRUE(same_bytes(statistics_of(*codec_, first.view(), offset),
                             statistics_of(*codec_, by_rank[0].view())));
      EXPECT_TRUE(same_bytes(encode(*codec_, slice, {0, 1}, first.view(), offset), message));
      EXPECT_TRUE(same_bits(decode(*codec_, slice, {0, 1}, wire, type, offset), decoded));
      EXPECT_TRUE(same_bits(decode_add(*codec_, slice, {0, 1}, wire, second, offset), sum));
      EXPECT_TRUE(same_bytes(
          decode_add_encode(*codec_, slice, {0, 1}, wire, second.view(), 1, offset), hop));
    }
  }
}

class EveryAddingCodec : public EveryCodec {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryAddingCodec,
                         testing::ValuesIn(codec_cases([](const Codec& codec) {
                           return !merges_messages(codec.kind());
                         })),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryAddingCodec, AHopEqualsEncodingTheSum) {
  Generator random(6);
  for (const std::size_t count : kCounts) {
    SCOPED_TRACE(count);
    const std::vector<TypedValues> by_rank = ranks_of(random, 3, count);
    const Exchange exchange(*codec_, by_rank);
    const Slice slice = exchange.whole();
    Message message = encode(*codec_, slice, {0, 1}, by_rank[0].view());
    for (std::uint32_t rank = 1; rank < 3; ++rank) {
      const Origin origin{.encoder = rank - 1, .contributions = rank};
      const TypedValues sum(DataType::kFloat32,
                            decode_add(*codec_, slice, origin, message, by_rank[rank]));
      const Message hop =
          decode_add_encode(*codec_, slice, origin, message, by_rank[rank].view(), rank);
      EXPECT_TRUE(same_bytes(hop, encode(*codec_, slice, {rank, rank + 1}, sum.view())));
      message = hop;
    }
  }
}

TEST_P(EveryCodec, SlicesDecodeToTheBitsOfTheWhole) {
  Generator random(7);
  for (const std::size_t count : {std::size_t{5121}, std::size_t{20011}}) {
    const std::vector<TypedValues> by_rank = ranks_of(random, 2, count);
    const Exchange exchange(*codec_, by_rank);
    const std::uint32_t order[] = {0, 1};
    const Slice whole = exchange.whole();
    const std::vector<float> expected =
        decode(*codec_, whole, {1, 2}, chain(*codec_, whole, by_rank, order));

    const std::size_t granules = (count + codec_->granule() - 1) / codec_->granule();
    std::vector<float> actual;
    while (actual.size() < count) {
      const std::size_t length =
          std::min(count - actual.size(), codec_->granule() * (1 + random.below(granules)));
      const Slice part = exchange.part(actual.size(), length);
      std::vector<TypedValues> parts;
      for (const TypedValues& values : by_rank) {
        const std::vector<float> all = values.widened();
        parts.emplace_back(DataType::kFloat32, std::span(all).subspan(actual.size(), length));
      }
      const Message message = chain(*codec_, part, parts, order);
      const std::vector<float> decoded = decode(*codec_, part, {1, 2}, message);
      actual.insert(actual.end(), decoded.begin(), decoded.end());
    }
    EXPECT_TRUE(same_bits(actual, expected));
  }
}

TEST_P(EveryCodec, MessagesOfSeveralParametersFitTheCapacity) {
  Generator random(8);
  for (int round = 0; round < rounds_of(5); ++round) {
    std::vector<std::vector<TypedValues>> parameters;
    std::vector<std::size_t> counts;
    for (std::size_t p = 0; p < 1 + random.below(6); ++p) {
      counts.push_back(random.below(3) == 0 ? random.below(40) : random.below(9000));
      parameters.push_back(ranks_of(random, 2, counts.back()));
    }
    const std::vector<Exchange> exchanges = Exchange::of_several(*codec_, parameters);
    std::size_t bytes = 0;
    for (const Exchange& exchange : exchanges) bytes += codec_->encoded_size(exchange.whole(), 1);
    EXPECT_LE(bytes, codec_->payload_capacity(counts));
  }
}

class EveryMergingCodec : public EveryCodec {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryMergingCodec,
                         testing::ValuesIn(codec_cases([](const Codec& codec) {
                           return merges_messages(codec.kind());
                         })),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryMergingCodec, WritesTheSameBytesFromAndToAnyAlignment) {
  Generator random(9);
  for (const std::size_t count : kCounts) {
    if (count > 10000) continue;
    SCOPED_TRACE(count);
    const std::vector<TypedValues> by_rank = ranks_of(random, 2, count);
    const Exchange exchange(*codec_, by_rank);
    const Slice slice = exchange.whole();
    const Message first = encode(*codec_, slice, {0, 1}, by_rank[0].view());
    const Message second = encode(*codec_, slice, {1, 1}, by_rank[1].view());
    const Message merged = merge(*codec_, slice, {0, 1}, first, {1, 1}, second, 1);
    // Over other rubbish: a byte that is not written differs.
    FencedBytes again(merged.size(), 3, 0x5a);
    ASSERT_TRUE(codec_->merge(slice, {0, 1}, first, {1, 1}, second, 1, again.bytes()).ok());
    EXPECT_TRUE(again.fences_stand());
    EXPECT_TRUE(same_bytes(again.bytes(), merged));
    for (const std::size_t offset : {1u, 4u, 7u}) {
      Message moved(offset);  // ends with the message, so that reading on is seen
      moved.insert(moved.end(), second.begin(), second.end());
      EXPECT_TRUE(same_bytes(
          merge(*codec_, slice, {0, 1}, first, {1, 1}, std::span(moved).subspan(offset), 1, offset),
          merged));
    }
  }
}

TEST_P(EveryMergingCodec, AHopEqualsMergingTheOwnMessage) {
  for (const DataType type : kAllTypes) {
    SCOPED_TRACE(to_string(type));
    Generator random(10);
    for (const std::size_t count : kCounts) {
      if (type != DataType::kFloat32 && count > 10000) continue;
      SCOPED_TRACE(count);
      std::vector<TypedValues> by_rank = ranks_of(random, 3, count, type);
      by_rank.emplace_back(type, random.hostile(count));
      const Exchange exchange(*codec_, by_rank);
      const Slice slice = exchange.whole();
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

// Slices, too, are merged each on their own.
TEST_P(EveryMergingCodec, MergesSlicesToTheBitsOfTheWhole) {
  Generator random(11);
  const std::size_t count = 3 * codec_->granule() + 77;
  const std::size_t cut = 2 * codec_->granule();
  const std::vector<TypedValues> by_rank = ranks_of(random, 2, count);
  const Exchange exchange(*codec_, by_rank);
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
  std::vector<float> parts = sum_of(exchange.part(0, cut));
  const std::vector<float> rest = sum_of(exchange.part(cut, count - cut));
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_TRUE(same_bits(parts, sum_of(exchange.whole())));
}

class EveryCountingCodec : public EveryCodec {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryCountingCodec,
                         testing::ValuesIn(codec_cases([](const Codec& codec) {
                           return codec.kind() == CodecKind::kCounting;
                         })),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryCountingCodec, AddsTwoRanksOfAnyValuesInEitherOrder) {
  Generator random(12);
  for (const std::size_t count : kFewCounts) {
    std::vector<TypedValues> by_rank = ranks_of(random, 1, count);
    by_rank.emplace_back(DataType::kFloat32, random.hostile_finite(count));
    const Exchange exchange(*codec_, by_rank);
    const std::uint32_t forth[] = {0, 1};
    const std::uint32_t back[] = {1, 0};
    EXPECT_TRUE(same_bytes(chain(*codec_, exchange.whole(), by_rank, back),
                           chain(*codec_, exchange.whole(), by_rank, forth)));
  }
}

TEST_P(EveryCountingCodec, MergesMessagesOfAnyValuesInEitherOrder) {
  for (int round = 0; round < rounds_of(8); ++round) {
    Generator random(13 + static_cast<std::uint64_t>(round));
    const std::size_t count = random.below(6000);
    std::vector<TypedValues> by_rank;
    for (int rank = 0; rank < 7; ++rank) {
      by_rank.emplace_back(DataType::kFloat32, random.hostile(count));
    }
    const Exchange exchange(*codec_, by_rank);
    const Slice slice = exchange.whole();
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

// Those whose sums are exact however large they get.
class EveryExactCodec : public EveryCodec {
 protected:
  // Half of them zeros, so that no scale and no sum of scales rounds.
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

TEST_P(EveryExactCodec, GivesTheSameBytesInAnyOrderOfRanks) {
  Generator random(14);
  const std::vector<TypedValues> by_rank = exact_ranks(random, 4);
  const Exchange exchange(*codec_, by_rank);
  std::vector<std::uint32_t> order = {0, 1, 2, 3};
  const Message expected = chain(*codec_, exchange.whole(), by_rank, order);
  while (std::next_permutation(order.begin(), order.end())) {
    ASSERT_TRUE(same_bytes(chain(*codec_, exchange.whole(), by_rank, order), expected))
        << order[0] << order[1] << order[2] << order[3];
  }
}

TEST_P(EveryExactCodec, GivesTheSameBytesOverAnyTree) {
  for (const std::size_t ranks : {2u, 3u, 5u, 8u, 17u}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    Generator random(15);
    const std::vector<TypedValues> by_rank = exact_ranks(random, ranks);
    const Exchange exchange(*codec_, by_rank);
    const Slice slice = exchange.whole();
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

// To the widest codes there are: every sum of two equal messages is twice as large, exactly.
TEST_P(EveryExactCodec, DoublesAMessageByMergingItWithItself) {
  Generator random(16);
  const std::vector<TypedValues> by_rank = ranks_of(random, 1, 5120 + 33);
  const Exchange exchange(*codec_, by_rank);
  Slice slice = exchange.whole();
  slice.ranks = codec_->most_ranks();
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
