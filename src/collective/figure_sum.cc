#include "collective/figure_sum.h"

#include <cstring>

#include "collective/complete_call.h"
#include "neuron_fabric/wire_frame.h"

namespace nf {
namespace {

constexpr std::string_view kCodec = "fp32";

class Sum final : public StatisticsKind {
 public:
  std::size_t granule() const override { return 1; }
  std::size_t size(std::size_t count) const override { return count * sizeof(float); }
  Status combine(std::size_t count, std::span<const std::span<const std::byte>> by_rank,
                 std::span<std::byte> combined) const override {
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        float figure = 0;
        std::memcpy(&figure, by_rank[rank].data() + i * sizeof figure, sizeof figure);
        sum = rank == 0 ? figure : sum + figure;
      }
      std::memcpy(combined.data() + i * sizeof sum, &sum, sizeof sum);
    }
    return {};
  }
};

const Sum kSum;

}  // namespace

FigureSum::FigureSum(Transport& transport, const AllReduceOptions& options)
    : transport_(transport), options_(options) {}

Status FigureSum::start(const AllReduceCall& call, std::uint64_t key, std::span<float> figures) {
  call_ = call;
  call_.gradients = {};
  state_ = State::kDone;
  if (transport_.ranks() == 1) return {};
  domain_ = {.parameter = 0, .first = 0, .count = figures.size()};
  bytes_ = std::as_writable_bytes(figures);
  part_ = {.kind = &kSum, .domain = std::span(&domain_, 1), .by_parameter = std::span(&bytes_, 1)};
  const Gradient gradient{.parameter = key, .values = Values(figures)};
  const DescribedPart described{.codec = kCodec, .gradients = std::span(&gradient, 1)};
  agreement_.emplace(
      transport_, describe_call(options_, call, Collective::kAllReduce, std::span(&described, 1)),
      loss_scale_of(call));
  state_ = State::kAgree;
  return {};
}

Status FigureSum::begin_sum() {
  call_.loss_scale = agreement_->loss_scale().value;
  call_.loss_scale_version = agreement_->loss_scale().version;
  state_ = State::kSum;
  return stage_.start(transport_, std::span(&part_, 1),
                      {.codec = codec_fingerprint(kCodec),
                       .epoch = call_.epoch,
                       .step = call_.step,
                       .checksummed = options_.checksum});
}

Expected<bool> FigureSum::advance() {
  NF_RETURN_IF_ERROR(transport_.progress());
  if (state_ == State::kAgree) {
    Expected<bool> is_done = agreement_->advance();
    if (!is_done || !*is_done) return is_done;
    NF_RETURN_IF_ERROR(begin_sum());
  }
  if (state_ == State::kSum) {
    Expected<bool> is_done = stage_.advance();
    if (!is_done || !*is_done) return is_done;
    state_ = State::kDone;
  }
  return true;
}

std::string FigureSum::waiting_for() const {
  return state_ == State::kAgree ? agreement_->waiting_for() : stage_.waiting_for();
}

Status FigureSum::run(const AllReduceCall& call, std::uint64_t key, std::span<float> figures) {
  return complete_call(start(call, key, figures), *this, transport_, options_.timeout,
                       to_string(Collective::kAllReduce), call.step);
}

}  // namespace nf
