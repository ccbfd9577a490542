// Every ISA writes the same bytes as the scalar reference and decodes to the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codec/isa.h"
#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

// All results of a codec for the values of two ranks.
struct Outcome {
  Message statistics;
  std::vector<std::uint8_t> widths;
  Message message;
  Message hop;
  Message merged;  // empty if messages do not merge
  std::vector<float> decoded;
  std::vector<float> added;
  std::vector<float> sum;
};

Outcome outcome_of(const Codec& codec, const std::vector<TypedValues>& by_rank) {
  const CodecContext context(codec, by_rank);
  const Slice slice = context.whole();
  const DataType type = by_rank[0].type();
  Outcome out;
  out.statistics.assign(context.statistics().begin(), context.statistics().end());
  out.widths.assign(context.widths().begin(), context.widths().end());
  out.message = encode(codec, slice, {0, 1}, by_rank[0].view());
  out.hop = decode_add_encode(codec, slice, {0, 1}, out.message, by_rank[1].view(), 1);
  if (merges_messages(codec.kind())) {
    const Message other = encode(codec, slice, {1, 1}, by_rank[1].view());
    out.merged = merge(codec, slice, {0, 1}, out.message, {1, 1}, other, 1);
  }
  out.decoded = decode(codec, slice, {0, 1}, out.message, type);
  out.added = decode_add(codec, slice, {0, 1}, out.message, by_rank[1]);
  out.sum = decode(codec, slice, {1, 2}, out.hop, type);
  return out;
}

class EveryVectorForm : public testing::TestWithParam<std::string> {
 protected:
  void expect_same_results(const std::vector<TypedValues>& by_rank) const {
    const Outcome expected = outcome_of(*make_for(Isa::kScalar, GetParam()), by_rank);
    for (const Isa isa : available_isas()) {
      SCOPED_TRACE(to_string(isa));
      if (isa == Isa::kScalar) continue;
      const Outcome actual = outcome_of(*make_for(isa, GetParam()), by_rank);
      EXPECT_TRUE(same_bytes(actual.statistics, expected.statistics)) << "statistics";
      EXPECT_EQ(actual.widths, expected.widths);
      EXPECT_TRUE(same_bytes(actual.message, expected.message)) << "encode";
      EXPECT_TRUE(same_bits(actual.decoded, expected.decoded)) << "decode";
      EXPECT_TRUE(same_bits(actual.added, expected.added)) << "decode_add";
      EXPECT_TRUE(same_bytes(actual.hop, expected.hop)) << "decode_add_encode";
      EXPECT_TRUE(same_bytes(actual.merged, expected.merged)) << "merge";
      EXPECT_TRUE(same_bits(actual.sum, expected.sum)) << "decode of a sum";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, EveryVectorForm, testing::ValuesIn(codec_spellings()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryVectorForm, EqualsTheReferenceOnGradients) {
  for (const DataType type : kAllTypes) {
    SCOPED_TRACE(to_string(type));
    Generator random(31);
    for (const std::size_t count : kCounts) {
      SCOPED_TRACE(count);
      const TypedValues first(type, random.mixture(count), 4 * (count % 5));
      const TypedValues second(type, random.normal(count, 1e-3f), 4);
      expect_same_results({first, second});
    }
  }
}

TEST_P(EveryVectorForm, EqualsTheReferenceOnHostileValues) {
  for (int round = 0; round < rounds_of(12); ++round) {
    Generator random(32 + static_cast<std::uint64_t>(round));
    const std::size_t count = random.below(6000);
    const DataType type = kAllTypes[random.below(3)];
    SCOPED_TRACE(testing::Message() << count << " values of " << to_string(type));
    expect_same_results(
        {TypedValues(type, random.hostile(count)), TypedValues(type, random.hostile(count), 4)});
    expect_same_results({TypedValues(type, random.hostile_finite(count)),
                         TypedValues(type, random.hostile_finite(count))});
  }
}

// Including signalling NaNs.
TEST_P(EveryVectorForm, EqualsTheReferenceOnEvery16BitValue) {
  std::vector<std::uint16_t> bits(0x10000);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> shifted(bits.begin() + 77, bits.end());
  shifted.resize(bits.size());
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    SCOPED_TRACE(to_string(type));
    expect_same_results({TypedValues(type, bits), TypedValues(type, shifted)});
  }
}

// The vector forms use streaming stores for outputs of at least 4 MiB.
TEST_P(EveryVectorForm, EqualsTheReferenceOnLargeParameters) {
  Generator random(33);
  const std::vector<float> values = random.normal(64 * 1024);
  std::vector<float> large;
  while (large.size() < (std::size_t{1} << 20)) {
    large.insert(large.end(), values.begin(), values.end());
  }
  large.resize(large.size() + 77, 0.5f);
  expect_same_results(
      {TypedValues(DataType::kFloat32, large), TypedValues(DataType::kFloat32, large)});
}

// Arbitrary bytes: either all forms reject them or all decode them to the same values.
TEST_P(EveryVectorForm, EqualsTheReferenceOnArbitraryBytes) {
  const std::unique_ptr<Codec> reference = make_for(Isa::kScalar, GetParam());
  for (int round = 0; round < rounds_of(20); ++round) {
    Generator random(34 + static_cast<std::uint64_t>(round));
    const std::size_t count = random.below(1500);
    const TypedValues values(DataType::kFloat32, random.mixture(count));
    const std::vector<TypedValues> by_rank = {values, values};
    const CodecContext context(*reference, by_rank);
    const Slice slice = context.whole();
    Message wire = encode(*reference, slice, {0, 1}, values.view());
    if (round % 2 == 0) {
      wire = random.bytes(wire.size());
    } else if (!wire.empty()) {
      for (int flip = 0; flip < 8; ++flip) {
        wire[random.below(wire.size())] ^= static_cast<std::byte>(1u << random.below(8));
      }
    }
    std::vector<float> expected(count, -7.0f);
    const Status status = reference->decode(slice, {0, 1}, wire, Values(expected));
    if (!status.ok()) {
      EXPECT_TRUE(same_bits(expected, std::vector<float>(count, -7.0f))) << "touched on failure";
    }
    for (const Isa isa : available_isas()) {
      SCOPED_TRACE(to_string(isa));
      const std::unique_ptr<Codec> codec = make_for(isa, GetParam());
      std::vector<float> actual(count, -7.0f);
      EXPECT_EQ(codec->decode(slice, {0, 1}, wire, Values(actual)).code(), status.code());
      EXPECT_TRUE(same_bits(actual, expected));
      if (!status.ok()) continue;
      EXPECT_TRUE(same_bits(decode_add(*codec, slice, {0, 1}, wire, values),
                            decode_add(*reference, slice, {0, 1}, wire, values)));
      EXPECT_TRUE(same_bytes(decode_add_encode(*codec, slice, {0, 1}, wire, values.view(), 1),
                             decode_add_encode(*reference, slice, {0, 1}, wire, values.view(), 1)));
      if (!merges_messages(codec->kind())) continue;
      EXPECT_TRUE(same_bytes(merge(*codec, slice, {0, 1}, wire, {1, 1}, wire, 1),
                             merge(*reference, slice, {0, 1}, wire, {1, 1}, wire, 1)));
    }
  }
}

class EveryMergingForm : public EveryVectorForm {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryMergingForm,
                         testing::ValuesIn(codec_spellings([](const Codec& codec) {
                           return merges_messages(codec.kind());
                         })),
                         [](const auto& param) { return test_name(param.param); });

// Messages of 1, 1, 2, 3, 5, 8, ... contributions, each the sum of the two before it: codes of
// different widths, up to the widest.
TEST_P(EveryMergingForm, EqualsTheReferenceForAnyNumberOfContributions) {
  const std::unique_ptr<Codec> reference = make_for(Isa::kScalar, GetParam());
  Generator random(35);
  const std::size_t count = 5120 + 333;
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, random.normal(count)),
                                            TypedValues(DataType::kFloat32, random.mixture(count))};
  const CodecContext context(*reference, by_rank);
  Slice slice = context.whole();
  slice.ranks = std::min(reference->max_ranks(), 10000u);
  Origin a{.encoder = 0, .contributions = 1};
  Origin b{.encoder = 1, .contributions = 1};
  Message first = encode(*reference, slice, a, by_rank[0].view());
  Message second = encode(*reference, slice, b, by_rank[1].view());
  while (a.contributions + b.contributions < slice.ranks) {
    const Origin sum{.encoder = 2, .contributions = a.contributions + b.contributions};
    SCOPED_TRACE(testing::Message() << sum.contributions << " contributions");
    Slice complete = slice;  // the same slice of a job in which the merged message is complete
    complete.ranks = sum.contributions;
    Message merged = merge(*reference, slice, a, first, b, second, 2);
    const Message last = merge(*reference, complete, a, first, b, second, 2);
    const Message hop = decode_add_encode(*reference, slice, sum, merged, by_rank[0].view(), 3);
    for (const Isa isa : available_isas()) {
      SCOPED_TRACE(to_string(isa));
      const std::unique_ptr<Codec> codec = make_for(isa, GetParam());
      EXPECT_TRUE(same_bytes(merge(*codec, slice, a, first, b, second, 2), merged));
      EXPECT_TRUE(same_bytes(merge(*codec, complete, a, first, b, second, 2), last));
      EXPECT_TRUE(
          same_bytes(decode_add_encode(*codec, slice, sum, merged, by_rank[0].view(), 3), hop));
      EXPECT_TRUE(
          same_bits(decode(*codec, slice, sum, merged), decode(*reference, slice, sum, merged)));
      EXPECT_TRUE(same_bits(decode_add(*codec, complete, sum, last, by_rank[1]),
                            decode_add(*reference, complete, sum, last, by_rank[1])));
    }
    first = std::exchange(second, std::move(merged));
    a = std::exchange(b, sum);
  }
}

}  // namespace
}  // namespace nf::test
