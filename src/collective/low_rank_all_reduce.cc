#include "collective/low_rank_all_reduce.h"

#include <fmt/format.h>

#include <cmath>

#include "collective/codec_all_reduce.h"

namespace nf {
namespace {

constexpr double kMostTerms = 64;

}  // namespace

Expected<std::unique_ptr<AllReduce>> LowRankAllReduce::create(Transport& transport,
                                                              const AllReduceOptions& options) {
  const Expected<CodecSpec> spec = CodecSpec::parse(options.codec);
  if (!spec) return spec.status();
  NF_RETURN_IF_ERROR(spec->allow(true, {}));
  const double terms = spec->value.value_or(0);
  if (!(terms >= 1 && terms <= kMostTerms && terms == std::floor(terms))) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("give the number of terms (powersgd:2), 1 to {}", kMostTerms));
  }
  AllReduceOptions of_factors = options;
  of_factors.codec = "fp32";
  Expected<std::unique_ptr<AllReduce>> factors = CodecAllReduce::create(transport, of_factors);
  if (!factors) return factors.status();
  Expected<std::unique_ptr<Codec>> dense = make_codec("fp32");
  if (!dense) return dense.status();
  return std::unique_ptr<AllReduce>(new LowRankAllReduce(transport, options,
                                                         static_cast<std::uint32_t>(terms),
                                                         std::move(*factors), std::move(*dense)));
}

LowRankAllReduce::LowRankAllReduce(Transport& transport, const AllReduceOptions& options,
                                   std::uint32_t terms, std::unique_ptr<AllReduce> factors,
                                   std::unique_ptr<Codec> dense)
    : transport_(transport),
      options_(options),
      terms_(terms),
      factors_(std::move(factors)),
      dense_(std::move(dense)) {}

Status LowRankAllReduce::start(const AllReduceCall& call) {
  gradients_.assign(call.gradients.begin(), call.gradients.end());
  call_ = {.step = call.step, .epoch = call.epoch, .gradients = gradients_};
  stage_ = Stage::kDone;
  if (transport_.ranks() == 1) return {};
  thin_.clear();
  for (const Gradient& gradient : gradients_) {
    const std::size_t count = gradient.values.count;
    const std::size_t rows = gradient.rows == 0 ? 1 : gradient.rows;
    if (count % rows != 0) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("{} values do not make a matrix of {} rows", count, rows)};
    }
    wide_.resize(count);
    NF_RETURN_IF_ERROR(dense_->encode(Slice{.count = count}, {}, gradient.values,
                                      std::as_writable_bytes(std::span(wide_))));
    LowRank& state =
        parameters_.try_emplace(gradient.parameter, terms_, options_.seed, gradient.parameter)
            .first->second;
    thin_.push_back({.parameter = gradient.parameter, .values = Values(state.begin(wide_, rows))});
  }
  stage_ = Stage::kFirst;
  return factors_->start({.step = call.step, .epoch = call.epoch, .gradients = thin_});
}

Status LowRankAllReduce::begin_second() {
  thin_.clear();
  for (const Gradient& gradient : gradients_) {
    const std::span<float> second = parameters_.at(gradient.parameter).middle();
    if (!second.empty()) thin_.push_back({.parameter = gradient.parameter, .values = second});
  }
  stage_ = Stage::kSecond;
  return factors_->start({.step = call_.step, .epoch = call_.epoch, .gradients = thin_});
}

void LowRankAllReduce::finish() {
  for (const Gradient& gradient : gradients_) {
    wide_.resize(gradient.values.count);
    parameters_.at(gradient.parameter).finish(wide_);
    // Sizes fit, so it cannot fail.
    (void)dense_->decode(Slice{.count = wide_.size()}, {}, std::as_bytes(std::span(wide_)),
                         gradient.values);
  }
  stage_ = Stage::kDone;
}

Expected<bool> LowRankAllReduce::advance() {
  while (stage_ != Stage::kDone) {
    const Expected<bool> is_summed = factors_->advance();
    if (!is_summed || !*is_summed) return is_summed;
    if (stage_ == Stage::kFirst) {
      NF_RETURN_IF_ERROR(begin_second());
    } else {
      finish();
    }
  }
  return true;
}

}  // namespace nf
