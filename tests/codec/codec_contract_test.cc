// The contract of neuron_fabric/codec.h, for every codec and every ISA.
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

class EveryCodec : public testing::TestWithParam<CodecCase> {
 protected:
  const std::unique_ptr<Codec> codec_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Registry, EveryCodec, testing::ValuesIn(codec_cases()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryCodec, WritesExactlyItsEncodedSizeAndTheSameBytesTwice) {
  Generator random(1);
  for (const std::size_t count : kCounts) {
    SCOPED_TRACE(count);
    const std::vector<TypedValues> by_rank = ranks_of(random, 2, count);
    const CodecContext context(*codec_, by_rank);
    const Slice slice = context.whole();
    const Message first = encode(*codec_, slice, {0, 1}, by_rank[0].view());
    // With other initial contents, so that a byte that is not written differs.
    GuardedBytes second(codec_->encoded_size(slice, 1), 1, 0x5a);
    ASSERT_TRUE(codec_->encode(slice, {0, 1}, by_rank[0].view(), second.bytes()).ok());
    EXPECT_TRUE(second.guards_intact());
    EXPECT_TRUE(same_bytes(second.bytes(), first));

    const Message hop = decode_add_encode(*codec_, slice, {0, 1}, first, by_rank[1].view(), 1);
    GuardedBytes again(codec_->encoded_size(slice, 2), 3, 0x5a);
    ASSERT_TRUE(
        codec_->decode_add_encode(slice, {0, 1}, first, by_rank[1].view(), {1, 2}, again.bytes())
            .ok());
    EXPECT_TRUE(again.guards_intact());
    EXPECT_TRUE(same_bytes(again.bytes(), hop));
  }
}

TEST_P(EveryCodec, ComputesStatisticsFromTheValuesAlone) {
  Generator random(2);
  for (const std::size_t count : kCounts) {
    SCOPED_TRACE(count);
    const std::vector<float> values = random.mixture(count);
    const Message at_once = statistics_of(*codec_, ConstValues(values));
    const TypedValues elsewhere(DataType::kFloat32, values, 12);
    EXPECT_TRUE(same_bytes(statistics_of(*codec_, elsewhere.view(), 1), at_once));
  }
}

TEST_P(EveryCodec, EncodesEveryTypeLikeTheSameValuesInFloat32) {
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
      const CodecContext context(*codec_, narrow);
      EXPECT_TRUE(same_bytes(context.statistics(), CodecContext(*codec_, wide).statistics()));
      const Slice slice = context.whole();
      const Message message = encode(*codec_, slice, {0, 1}, narrow[0].view(), 1);
      EXPECT_TRUE(same_bytes(message, encode(*codec_, slice, {0, 1}, wide[0].view())));
      EXPECT_TRUE(
          same_bytes(decode_add_encode(*codec_, slice, {0, 1}, message, narrow[1].view(), 1, 5),
                     decode_add_encode(*codec_, slice, {0, 1}, message, wide[1].view(), 1)));
    }
  }
}

TEST_P(EveryCodec, DecodesIntoEveryTypeWithOneRounding) {
  for (const DataType type : kAllTypes) {
    SCOPED_TRACE(to_string(type));
    Generator random(4);
    for (const std::size_t count : kCounts) {
      if (type != DataType::kFloat32 && count > 10000) continue;
      SCOPED_TRACE(count);
      const std::vector<TypedValues> by_rank = ranks_of(random, 2, count, type);
      const CodecContext context(*codec_, by_rank);
      const Slice slice = context.whole();
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

TEST_P(EveryCodec, AcceptsMessagesAndValuesAtAnyAlignment) {
  Generator random(5);
  for (const DataType type : kAllTypes) {
    const std::vector<TypedValues> by_rank = ranks_of(random, 2, 1025, type);
    const CodecContext context(*codec_, by_rank);
    const Slice slice = context.whole();
    const Message message = encode(*codec_, slice, {0, 1}, by_rank[0].view());
    const Message hop = decode_add_encode(*codec_, slice, {0, 1}, message, by_rank[1].view(), 1);
    const std::vector<float> decoded = decode(*codec_, slice, {0, 1}, message, type);
    const std::vector<float> sum = decode_add(*codec_, slice, {0, 1}, message, by_rank[1]);
    for (const std::size_t offset : {1u, 2u, 3u, 4u, 7u, 8u, 32u}) {
      SCOPED_TRACE(testing::Message() << to_string(type) << ", " << offset << " bytes off");
      Message moved(offset);  // ends with the message, so that reading past it is detected
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

TEST_P(EveryAddingCodec, HopEqualsEncodingTheSum) {
  Generator random(6);
  for (const std::size_t count : kCounts) {
    SCOPED_TRACE(count);
    const std::vector<TypedValues> by_rank = ranks_of(random, 3, count);
    const CodecContext context(*codec_, by_rank);
    const Slice slice = context.whole();
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
    const CodecContext context(*codec_, by_rank);
    const std::uint32_t order[] = {0, 1};
    const Slice whole = context.whole();
    const std::vector<float> expected =
        decode(*codec_, whole, {1, 2}, chain(*codec_, whole, by_rank, order));

    const std::size_t granules = (count + codec_->granule() - 1) / codec_->granule();
    std::vector<float> actual;
    while (actual.size() < count) {
      const std::size_t length =
          std::min(count - actual.size(), codec_->granule() * (1 + random.below(granules)));
      const Slice part = context.part(actual.size(), length);
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
    const std::vector<CodecContext> contexts = CodecContext::for_parameters(*codec_, parameters);
    std::size_t bytes = 0;
    for (const CodecContext& context : contexts) bytes += codec_->encoded_size(context.whole(), 1);
    EXPECT_LE(bytes, codec_->payload_capacity(counts));
  }
}

}  // namespace
}  // namespace nf::test
