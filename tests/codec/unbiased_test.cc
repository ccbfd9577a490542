// Codecs with Codec::is_unbiased(): over many steps with the same values, the mean error is zero.
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

class EveryUnbiasedCodec : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryUnbiasedCodec,
                         testing::ValuesIn(codec_spellings([](const Codec& codec) {
                           return codec.is_unbiased(1);
                         })),
                         [](const auto& param) { return test_name(param.param); });

// The mean of independent steps and its standard error.
class Mean {
 public:
  void add(double x) {
    sum_ += x;
    squares_ += x * x;
    ++count_;
  }
  double mean() const { return sum_ / count_; }
  // The variance of the mean, assuming that the expected value is zero.
  double variance() const { return squares_ / count_ / count_; }
  double deviations() const { return variance() > 0 ? mean() / std::sqrt(variance()) : 0; }

 private:
  double sum_ = 0;
  double squares_ = 0;
  double count_ = 0;
};

// Four standard errors: exceeded by chance once in 16,000, and the seeds are fixed.
constexpr double kMaxDeviations = 4;

TEST_P(EveryUnbiasedCodec, HasNoMeanError) {
  constexpr std::size_t kCount = 1024;
  constexpr int kSteps = 600;
  const std::unique_ptr<Codec> codec = make_for(available_isas().front(), GetParam());
  for (const std::size_t ranks : {1u, 3u}) {
    if (!codec->is_unbiased(static_cast<std::uint32_t>(ranks))) continue;  // one encode per rank
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
    Mean offset;     // of the errors of all values, relative to the norm of their super-group
    Mean shrinkage;  // of the errors along the values: a slope other than 1
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

// The same for every element on its own.
TEST_P(EveryUnbiasedCodec, HasNoMeanErrorInAnyElement) {
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
  // Without bias, the expected square of a mean is its variance v, with a deviation of sqrt(2) v.
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
