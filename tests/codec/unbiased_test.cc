// Codecs that promise an unbiased sum: over many steps of the same values, no error stays.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

std::vector<std::string> unbiased_spellings() {
  std::vector<std::string> spellings;
  for (const std::string& spelling : codec_spellings()) {
    const std::string name = spelling.substr(0, spelling.find_first_of(":+"));
    if (name != "waterfill" && name != "dynamiq") continue;
    // With error feedback what is left out comes later.
    if (!(*make_codec(spelling))->keeps_residual()) spellings.push_back(spelling);
  }
  return spellings;
}

class EveryUnbiasedCodec : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryUnbiasedCodec, testing::ValuesIn(unbiased_spellings()),
                         [](const auto& param) { return test_name(param.param); });

// A mean over independent steps, in standard errors of it.
class Mean {
 public:
  void add(double x) {
    sum_ += x;
    squares_ += x * x;
    ++count_;
  }
  double mean() const { return sum_ / count_; }
  // Of the mean, if the steps have none.
  double variance() const { return squares_ / count_ / count_; }
  double deviations() const { return variance() > 0 ? mean() / std::sqrt(variance()) : 0; }

 private:
  double sum_ = 0;
  double squares_ = 0;
  double count_ = 0;
};

// Four standard errors: by chance once in 16,000, and the seeds are fixed.
constexpr double kMaxDeviations = 4;

bool is_correlated(const CodecSpec& spec) {
  return spec.name == "dynamiq" && !spec.options.contains("independent");
}

TEST_P(EveryUnbiasedCodec, LeavesNoErrorOnAverage) {
  constexpr std::size_t kCount = 1024;
  constexpr int kSteps = 600;
  const std::unique_ptr<Codec> codec = make_for(available_isas().front(), GetParam());
  for (const std::size_t ranks : {1u, 3u}) {
    // Draws that are correlated between ranks are unbiased in one encode only: in a chain, a later
    // rounding depends on what the earlier ones left (docs/codecs/dynamiq.md).
    if (ranks > 1 && is_correlated(codec->spec())) continue;
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    Generator random(1);
    std::vector<TypedValues> by_rank;
    std::vector<std::uint32_t> order;
    std::vector<double> sum(kCount);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::vector<float> values = random.mixture(kCount);
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += values[i];
      by_rank.emplace_back(DataType::kFloat32, values);
      order.push_back(static_cast<std::uint32_t>(rank));
    }
    CodecContext context(*codec, by_rank);
    Mean offset;     // of all values, each in units of its super-group's size
    Mean shrinkage;  // of the values along themselves: a slope other than 1
    for (int step = 0; step < kSteps; ++step) {
      context.step = static_cast<std::uint64_t>(step);
      const Slice slice = context.whole();
      const Message message = chain(*codec, slice, by_rank, order);
      const std::vector<float> decoded =
          decode(*codec, slice, {order.back(), static_cast<std::uint32_t>(ranks)}, message);
      double off = 0;
      double along = 0;
      for (std::size_t start = 0; start < kCount; start += 256) {
        double energy = 0;
        for (std::size_t i = start; i < start + 256; ++i) energy += sum[i] * sum[i];
        for (std::size_t i = start; i < start + 256; ++i) {
          const double error = decoded[i] - sum[i];
          off += error / std::sqrt(energy);
          along += error * sum[i] / energy;
        }
      }
      offset.add(off);
      shrinkage.add(along);
    }
    EXPECT_LT(std::abs(offset.deviations()), kMaxDeviations);
    EXPECT_LT(std::abs(shrinkage.deviations()), kMaxDeviations);
  }
}

// Element by element: the errors of one element over the steps have no mean either.
TEST_P(EveryUnbiasedCodec, LeavesNoErrorOnAnyElement) {
  constexpr std::size_t kCount = 512;
  constexpr int kSteps = 600;
  const std::unique_ptr<Codec> codec = make_for(available_isas().front(), GetParam());
  Generator random(2);
  const std::vector<float> values = random.normal(kCount);
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
  CodecContext context(*codec, by_rank);
  std::vector<Mean> errors(kCount);
  for (int step = 0; step < kSteps; ++step) {
    context.step = static_cast<std::uint64_t>(step);
    const Slice slice = context.whole();
    const Message message = encode(*codec, slice, {0, 1}, by_rank[0].view());
    const std::vector<float> decoded = decode(*codec, slice, {0, 1}, message);
    for (std::size_t i = 0; i < kCount; ++i) errors[i].add(decoded[i] - values[i]);
  }
  // Without bias, the square of a mean is its variance v on average, give or take sqrt(2) v.
  double excess = 0;
  double spread = 0;
  for (const Mean& error : errors) {
    excess += error.mean() * error.mean() - error.variance();
    spread += 2 * error.variance() * error.variance();
  }
  EXPECT_LT(excess / std::sqrt(spread), kMaxDeviations);
}

}  // namespace
}  // namespace nf::test
