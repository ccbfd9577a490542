#include "collective/low_rank_all_reduce.h"

#include <fmt/format.h>

#include "collective/all_finite.h"
#include "collective/checkpoint_checks.h"
#include "collective/low_rank_limits.h"
#include "collective/low_rank_pairs.h"

namespace nf {
namespace {

std::size_t rows_of(const Gradient& gradient) { return gradient.rows == 0 ? 1 : gradient.rows; }

}  // namespace

Expected<std::uint32_t> LowRankAllReduce::terms_of(std::string_view codec) {
  const Expected<CodecSpec> spec = CodecSpec::parse(codec);
  if (!spec) return spec.status();
  NF_RETURN_IF_ERROR(spec->allow(true, {}));
  const double terms = spec->value.value_or(0);
  if (!(terms >= 1 && terms <= kMaxTerms && terms == std::floor(terms))) {
    return Status(
        ErrorCode::kBadConfig,
        fmt::format("powersgd needs a number of terms from 1 to {}, as in powersgd:2", kMaxTerms));
  }
  return static_cast<std::uint32_t>(terms);
}

Status LowRankAllReduce::check_rows(std::size_t count, std::size_t rows) {
  if (rows == 0 || count % rows == 0) return {};
  return {ErrorCode::kInvalidArgument,
          fmt::format("{} values do not make a matrix of {} rows", count, rows)};
}

Expected<std::unique_ptr<AllReduce>> LowRankAllReduce::create(Transport& transport,
                                                              const AllReduceOptions& options) {
  const Expected<std::uint32_t> terms = terms_of(options.codec);
  if (!terms) return terms.status();
  AllReduceOptions of_factors = options;
  of_factors.codec = "fp32";
  Expected<std::unique_ptr<CodecAllReduce>> factors = CodecAllReduce::create(transport, of_factors);
  if (!factors) return factors.status();
  Expected<std::unique_ptr<Codec>> dense = make_codec("fp32");
  if (!dense) return dense.status();
  return std::unique_ptr<AllReduce>(
      new LowRankAllReduce(transport, options, *terms, std::move(*factors), std::move(*dense)));
}

LowRankAllReduce::LowRankAllReduce(Transport& transport, const AllReduceOptions& options,
                                   std::uint32_t terms, std::unique_ptr<CodecAllReduce> factors,
                                   std::unique_ptr<Codec> dense)
    : transport_(transport),
      options_(options),
      terms_(terms),
      codec_(fmt::format("{}:{}", kName, terms)),
      factors_(std::move(factors)),
      dense_(std::move(dense)) {}

Status LowRankAllReduce::start(const AllReduceCall& call) {
  NF_RETURN_IF_ERROR(check_loss_scale(call.loss_scale));
  gradients_.assign(call.gradients.begin(), call.gradients.end());
  call_ = call;
  call_.gradients = gradients_;
  state_ = State::kDone;
  if (transport_.ranks() == 1) return {};
  NF_RETURN_IF_ERROR(check_shapes());
  // The first factor depends on the loss scale that all ranks agree on.
  agreement_.emplace(transport_, describe_call(codec_, options_, call_, 1), loss_scale_of(call_));
  state_ = State::kAgree;
  return {};
}

Status LowRankAllReduce::check_shapes() {
  for (const Gradient& gradient : gradients_) {
    NF_RETURN_IF_ERROR(check_rows(gradient.values.count, rows_of(gradient)));
    const auto held = parameters_.find(gradient.parameter);
    if (held == parameters_.end() || held->second.error().empty()) continue;
    NF_RETURN_IF_ERROR(check_shape(gradient.parameter, {held->second.rows(), held->second.cols()},
                                   {rows_of(gradient), gradient.values.count / rows_of(gradient)}));
  }
  return {};
}

Status LowRankAllReduce::begin_first() {
  factor_gradients_.clear();
  new_parameters_.clear();
  for (const Gradient& gradient : gradients_) {
    LowRank& state = state_of(gradient.parameter);
    if (state.error().empty()) new_parameters_.push_back(gradient.parameter);
    fp32_values_.resize(gradient.values.count);
    NF_RETURN_IF_ERROR(dense_->encode(Slice{.count = fp32_values_.size()}, {}, gradient.values,
                                      std::as_writable_bytes(std::span(fp32_values_))));
    factor_gradients_.push_back(
        {.parameter = gradient.parameter,
         .values = Values(state.first_factor(fp32_values_, rows_of(gradient), call_.loss_scale))});
  }
  state_ = State::kFirst;
  AllReduceCall call = call_;
  call.gradients = factor_gradients_;
  return factors_->start_agreed(call);
}

// Ranks agree on the caller's gradients: factors of different gradients can have equal shapes.
Status LowRankAllReduce::begin_second() {
  factor_gradients_.clear();
  for (const Gradient& gradient : gradients_) {
    const std::span<float> second = parameters_.at(gradient.parameter).second_factor();
    if (!second.empty())
      factor_gradients_.push_back({.parameter = gradient.parameter, .values = second});
  }
  state_ = State::kSecond;
  AllReduceCall call = call_;
  call.gradients = factor_gradients_;
  return factors_->start_as(call, describe_call(codec_, options_, call_, 2));
}

// Keeps the new memory only if the whole sum is finite, as for residuals: a step whose sum contains
// NaN or Inf is skipped.
void LowRankAllReduce::finish() {
  bool is_finite = true;
  for (const Gradient& gradient : gradients_) {
    fp32_values_.resize(gradient.values.count);
    parameters_.at(gradient.parameter).finish(fp32_values_);
    // Sizes match, so it cannot fail.
    (void)dense_->decode(Slice{.count = fp32_values_.size()}, {},
                         std::as_bytes(std::span(fp32_values_)), gradient.values);
    is_finite = is_finite && all_finite(gradient.values);
  }
  if (!is_finite) {
    for (const Gradient& gradient : gradients_) undo(gradient.parameter);
  }
  state_ = State::kDone;
}

void LowRankAllReduce::forget_new_parameters() {
  for (const std::uint64_t parameter : new_parameters_) forget(parameter);
}

void LowRankAllReduce::undo(std::uint64_t parameter) {
  if (const auto held = parameters_.find(parameter); held != parameters_.end()) held->second.undo();
}

LowRank& LowRankAllReduce::state_of(std::uint64_t parameter) {
  return parameters_.try_emplace(parameter, terms_, options_.seed, parameter).first->second;
}

std::vector<MemoryEntry> LowRankAllReduce::save_memory() const {
  std::vector<MemoryEntry> memory;
  for (const auto& [parameter, state] : parameters_) {
    if (state.error().empty()) continue;  // sent dense
    for (const auto& [kind, values] :
         {std::pair(kLowRankBasis, state.basis()), {kLowRankError, state.error()}}) {
      memory.push_back({.parameter = parameter,
                        .kind = std::string(kind),
                        .rows = state.rows(),
                        .values = {values.begin(), values.end()}});
    }
  }
  sort_memory(memory);
  return memory;
}

Status LowRankAllReduce::load_memory(std::span<const MemoryEntry> memory) {
  const Expected<std::vector<LowRankPair>> pairs =
      low_rank_pairs(memory, terms_, [this](std::uint64_t parameter) {
        const auto held = parameters_.find(parameter);
        if (held == parameters_.end()) return LowRankShape();
        return LowRankShape{held->second.rows(), held->second.cols()};
      });
  if (!pairs) return pairs.status();
  for (const LowRankPair& pair : *pairs) {
    state_of(pair.parameter).restore(pair.shape.rows, pair.shape.cols, pair.basis, pair.error);
  }
  return {};
}

std::string LowRankAllReduce::waiting_for() const {
  return state_ == State::kAgree ? agreement_->waiting_for() : factors_->waiting_for();
}

Traffic LowRankAllReduce::traffic() const {
  Traffic traffic = factors_->traffic();
  traffic.agreement += agreement_bytes_;
  return traffic;
}

Expected<bool> LowRankAllReduce::advance() {
  while (state_ != State::kDone) {
    if (state_ == State::kAgree) {
      NF_RETURN_IF_ERROR(transport_.progress());
      Expected<bool> is_agreed = agreement_->advance();
      if (!is_agreed || !*is_agreed) return is_agreed;
      agreement_bytes_ += agreement_->bytes_sent();
      call_.loss_scale = agreement_->loss_scale().value;
      call_.loss_scale_version = agreement_->loss_scale().version;
      NF_RETURN_IF_ERROR(begin_first());
    }
    Expected<bool> is_summed = factors_->advance();
    if (!is_summed) forget_new_parameters();
    if (!is_summed || !*is_summed) return is_summed;
    if (state_ == State::kFirst) {
      NF_RETURN_IF_ERROR(begin_second());
    } else {
      finish();
    }
  }
  return true;
}

}  // namespace nf
