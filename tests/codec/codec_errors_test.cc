// Every codec rejects arguments that do not match, messages of the wrong size and unknown codec
// specs, and leaves its outputs untouched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

constexpr std::size_t kCount = 300;

class EveryCodecRejects : public testing::TestWithParam<CodecCase> {
 protected:
  EveryCodecRejects() {
    Generator random(41);
    for (int rank = 0; rank < 2; ++rank) {
      by_rank_.emplace_back(DataType::kFloat32, random.normal(kCount));
    }
    context_ = std::make_unique<CodecContext>(*codec_, by_rank_);
    slice_ = context_->whole();
    message_ = encode(*codec_, slice_, kOrigin, by_rank_[0].view());
  }

  // Expects that every operation rejects these arguments and writes nothing.
  void expect_rejected(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                       std::size_t count, ErrorCode code = ErrorCode::kInvalidArgument) const {
    const std::vector<float> values(count, 1.0f);
    GuardedBytes out(count * sizeof(float));
    const Values to(out.bytes().data(), count, DataType::kFloat32);
    EXPECT_EQ(codec_->decode(slice, origin, wire, to).code(), code);
    EXPECT_EQ(codec_->decode_add(slice, origin, wire, to).code(), code);
    EXPECT_TRUE(out.untouched());
    GuardedBytes hop(codec_->encoded_size(slice_, 2));
    EXPECT_EQ(codec_
                  ->decode_add_encode(slice, origin, wire, ConstValues(values),
                                      {1, origin.contributions + 1}, hop.bytes())
                  .code(),
              code);
    // As the first and as the second of two messages. A merge has no values to count.
    if (merges_messages(codec_->kind()) && count == slice.count) {
      EXPECT_EQ(codec_->merge(slice, origin, wire, kOrigin, message_, 1, hop.bytes()).code(), code);
      EXPECT_EQ(codec_->merge(slice, kOrigin, message_, origin, wire, 1, hop.bytes()).code(), code);
    }
    EXPECT_TRUE(hop.untouched());
  }

  void expect_encode_rejected(const Slice& slice, Origin origin, std::size_t count,
                              std::size_t size) const {
    const std::vector<float> values(count, 1.0f);
    GuardedBytes out(size);
    EXPECT_EQ(codec_->encode(slice, origin, ConstValues(values), out.bytes()).code(),
              ErrorCode::kInvalidArgument);
    EXPECT_TRUE(out.untouched());
  }

  static constexpr Origin kOrigin{.encoder = 0, .contributions = 1};
  const std::unique_ptr<Codec> codec_ = GetParam().make();
  std::vector<TypedValues> by_rank_;
  std::unique_ptr<CodecContext> context_;
  Slice slice_;
  Message message_;
};

INSTANTIATE_TEST_SUITE_P(Registry, EveryCodecRejects, testing::ValuesIn(codec_cases()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryCodecRejects, WrongNumberOfValues) {
  for (const std::size_t count : {kCount - 1, kCount + 1, std::size_t{0}}) {
    expect_rejected(slice_, kOrigin, message_, count);
    expect_encode_rejected(slice_, kOrigin, count, message_.size());
  }
}

TEST_P(EveryCodecRejects, MessagesThatAreTruncatedOrTooLong) {
  for (std::size_t size = 0; size < message_.size(); ++size) {
    const Message truncated(message_.begin(), message_.begin() + static_cast<std::ptrdiff_t>(size));
    expect_rejected(slice_, kOrigin, truncated, kCount);
    expect_encode_rejected(slice_, kOrigin, kCount, size);
  }
  Message longer = message_;
  longer.push_back(std::byte{0});
  expect_rejected(slice_, kOrigin, longer, kCount);
  expect_encode_rejected(slice_, kOrigin, kCount, longer.size());
}

TEST_P(EveryCodecRejects, OutgoingMessagesOfTheWrongSize) {
  const std::size_t size = codec_->encoded_size(slice_, 2);
  for (const std::size_t wrong : {std::size_t{0}, size / 2, size + 1}) {
    if (wrong == size) continue;  // all blocks may be left out
    GuardedBytes out(wrong);
    EXPECT_EQ(
        codec_
            ->decode_add_encode(slice_, kOrigin, message_, by_rank_[1].view(), {1, 2}, out.bytes())
            .code(),
        ErrorCode::kInvalidArgument);
    if (merges_messages(codec_->kind())) {
      EXPECT_EQ(codec_->merge(slice_, kOrigin, message_, kOrigin, message_, 1, out.bytes()).code(),
                ErrorCode::kInvalidArgument);
    }
    EXPECT_TRUE(out.untouched());
  }
}

TEST_P(EveryCodecRejects, NoContributionsOrTooMany) {
  for (const std::uint32_t contributions : {0u, 3u, ~0u}) {
    expect_rejected(slice_, {0, contributions}, message_, kCount);
    expect_encode_rejected(slice_, {0, contributions}, kCount, message_.size());
  }
  // The message already contains both ranks: there is no rank for another hop.
  const std::uint32_t order[] = {0, 1};
  const Message both = chain(*codec_, slice_, by_rank_, order);
  GuardedBytes out(codec_->encoded_size(slice_, 2));
  EXPECT_EQ(codec_->decode_add_encode(slice_, {1, 2}, both, by_rank_[0].view(), {0, 3}, out.bytes())
                .code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codec_->merge(slice_, {1, 2}, both, kOrigin, message_, 0, out.bytes()).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(out.untouched());
}

TEST_P(EveryCodecRejects, MoreRanksThanItsMaximum) {
  Slice crowded = slice_;
  crowded.ranks = codec_->max_ranks();
  GuardedBytes out(message_.size());
  EXPECT_TRUE(codec_->encode(crowded, kOrigin, by_rank_[0].view(), out.bytes()).ok());
  ++crowded.ranks;
  expect_rejected(crowded, kOrigin, message_, kCount);
  expect_encode_rejected(crowded, kOrigin, kCount, message_.size());
}

TEST_P(EveryCodecRejects, SlicesThatDoNotStartAtAGranule) {
  for (std::size_t first = 1; first < codec_->granule() && first < 40; ++first) {
    const Slice off = context_->part(first, kCount - 40);
    expect_rejected(off, kOrigin, message_, kCount - 40);
    expect_encode_rejected(off, kOrigin, kCount - 40, message_.size());
  }
}

TEST_P(EveryCodecRejects, SlicesBeyondTheMaximumSize) {
  Slice far = slice_;
  far.first = (std::uint64_t{1} << 63) / codec_->granule() * codec_->granule();
  expect_rejected(far, kOrigin, message_, kCount);
  expect_encode_rejected(far, kOrigin, kCount, message_.size());
}

TEST_P(EveryCodecRejects, MissingStatisticsAndWidths) {
  if (!slice_.statistics.empty()) {
    Slice without = slice_;
    without.statistics = slice_.statistics.first(slice_.statistics.size() - 1);
    expect_rejected(without, kOrigin, message_, kCount);
    expect_encode_rejected(without, kOrigin, kCount, message_.size());
  }
  if (!slice_.widths.empty()) {
    Slice without = slice_;
    without.widths = slice_.widths.first(slice_.widths.size() - 1);
    expect_rejected(without, kOrigin, message_, kCount);
    expect_encode_rejected(without, kOrigin, kCount, message_.size());
  }
}

TEST_P(EveryCodecRejects, InvalidWidths) {
  std::vector<std::uint8_t> widths(slice_.widths.begin(), slice_.widths.end());
  Slice hostile = slice_;
  hostile.widths = widths;
  for (const std::uint8_t wrong : std::initializer_list<std::uint8_t>{0, 17, 255}) {
    if (widths.empty()) break;
    const bool leaves_out = codec_->kind() == CodecKind::kSparse || codec_->keeps_residual();
    if (wrong == 0 && leaves_out) continue;
    widths.back() = wrong;
    expect_rejected(hostile, kOrigin, message_, kCount);
    expect_encode_rejected(hostile, kOrigin, kCount, message_.size());
  }
}

TEST_P(EveryCodecRejects, StatisticsOfTheWrongSize) {
  const std::size_t size = codec_->statistics_size(kCount);
  const std::vector<float> values(kCount, 1.0f);
  GuardedBytes longer(size + 1);
  EXPECT_EQ(codec_->statistics(ConstValues(values), longer.bytes()).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(longer.untouched());

  const Message good(size);
  const Message bad(size + 1);
  const std::span<const std::byte> uneven[] = {good, bad};
  GuardedBytes combined(size);
  EXPECT_EQ(codec_->combine_statistics(kCount, uneven, combined.bytes()).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codec_->combine_statistics(kCount, {}, combined.bytes()).code(),
            ErrorCode::kInvalidArgument);
  const std::span<const std::byte> even[] = {good, good};
  EXPECT_EQ(codec_->combine_statistics(kCount, even, longer.bytes()).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(combined.untouched());
  EXPECT_TRUE(longer.untouched());
}

TEST_P(EveryCodecRejects, WidthRequestsOfTheWrongSize) {
  const Message statistics(codec_->statistics_size(kCount));
  const Message longer(statistics.size() + 1);
  std::vector<std::uint8_t> widths(codec_->width_count(kCount), 0xa5);
  std::vector<std::uint8_t> more(widths.size() + 1, 0xa5);
  const auto rejected = [&](const WidthRequest& request, std::uint32_t ranks) {
    return codec_->choose_widths({&request, 1}, {.ranks = ranks}).code() ==
           ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(rejected({kCount, longer, widths}, 2));
  EXPECT_TRUE(rejected({kCount, statistics, more}, 2));
  EXPECT_TRUE(rejected({kCount, statistics, widths}, 0));
  EXPECT_THAT(widths, testing::Each(0xa5));
  EXPECT_THAT(more, testing::Each(0xa5));
}

// A message with a flipped bit either decodes to some values or is rejected, and then the output is
// untouched.
TEST_P(EveryCodecRejects, OrDecodesEveryFlippedBit) {
  for (std::size_t bit = 0; bit < 8 * message_.size(); ++bit) {
    Message damaged = message_;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    GuardedBytes out(kCount * sizeof(float));
    const Values to(out.bytes().data(), kCount, DataType::kFloat32);
    const Status status = codec_->decode(slice_, kOrigin, damaged, to);
    if (status.ok()) {
      EXPECT_TRUE(out.guards_intact());
    } else {
      EXPECT_EQ(status.code(), ErrorCode::kCorruptFrame);
      EXPECT_FALSE(status.message().empty());
      EXPECT_TRUE(out.untouched());
      expect_rejected(slice_, kOrigin, damaged, kCount, ErrorCode::kCorruptFrame);
    }
  }
}

class EveryAddingCodecRejects : public EveryCodecRejects {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryAddingCodecRejects,
                         testing::ValuesIn(codec_cases([](const Codec& codec) {
                           return !merges_messages(codec.kind());
                         })),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryAddingCodecRejects, Merges) {
  GuardedBytes out(codec_->encoded_size(slice_, 2));
  const Status status = codec_->merge(slice_, kOrigin, message_, {1, 1}, message_, 1, out.bytes());
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr(codec_->spec().name));
  EXPECT_TRUE(out.untouched());
}

class EveryCodecSpec : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryCodecSpec, testing::ValuesIn(codec_spellings()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryCodecSpec, RejectsUnknownOptionsByName) {
  const auto codec = make_codec(GetParam() + "+no_such_option");
  ASSERT_FALSE(codec.has_value());
  EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig);
  EXPECT_THAT(codec.status().message(), testing::HasSubstr("no_such_option"));
}

TEST_P(EveryCodecSpec, RejectsInvalidValues) {
  const std::string name = CodecSpec::parse(GetParam())->name;
  for (const char* value : {"-1", "1000000", "nan", "inf", "1e300"}) {
    const auto codec = make_codec(name + ":" + value);
    ASSERT_FALSE(codec.has_value()) << value;
    EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig) << value;
    EXPECT_FALSE(codec.status().message().empty());
  }
}

TEST_P(EveryCodecSpec, RejectsInvalidOptionValues) {
  const Expected<CodecSpec> spec = CodecSpec::parse(GetParam());
  for (const auto& [option, value] : spec->options) {
    for (const char* invalid : {"-1", "1000000", "nan", "often"}) {
      CodecSpec changed = *spec;
      changed.options[option] = invalid;
      const auto codec = make_codec(changed.to_string());
      ASSERT_FALSE(codec.has_value()) << changed.to_string();
      EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig);
      EXPECT_THAT(codec.status().message(), testing::HasSubstr(option));
    }
  }
}

TEST_P(EveryCodecSpec, IsTheSpecOfItsCodec) {
  const auto codec = make_codec(GetParam());
  ASSERT_TRUE(codec.has_value());
  EXPECT_EQ((*codec)->spec().to_string(), GetParam());
}

}  // namespace
}  // namespace nf::test
