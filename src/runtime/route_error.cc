#include "runtime/route_error.h"

#include <span>
#include <utility>

#include "collective/low_rank_all_reduce.h"
#include "collective/route_memory.h"
#include "runtime/gradient_norm.h"

namespace nf {

RouteError::RouteError(std::unique_ptr<Codec> codec, std::unique_ptr<Codec> dense)
    : codec_(std::move(codec)), dense_(std::move(dense)) {}

Expected<RouteError> RouteError::create(std::string_view route) {
  if (const auto spec = CodecSpec::parse(route); !spec) return spec.status();
  Expected<std::unique_ptr<Codec>> dense = make_codec("fp32");
  if (!dense) return dense.status();
  if (is_low_rank(route)) {
    if (const auto terms = LowRankAllReduce::terms_of(route); !terms) return terms.status();
    return RouteError(nullptr, std::move(*dense));
  }
  Expected<std::unique_ptr<Codec>> codec = make_codec(route);
  if (!codec) return codec.status();
  return RouteError(std::move(*codec), std::move(*dense));
}

Expected<RouteSample> RouteError::measure(ConstValues sample, const Key& key) {
  if (codec_ == nullptr) return RouteSample{};
  const GradientNorm norm = gradient_norm(sample);
  if (norm.non_finite > 0 || norm.energy == 0) return RouteSample{};
  NF_RETURN_IF_ERROR(encode_and_decode(sample, key));
  for (std::size_t i = 0; i < sample.count; ++i) decoded_[i] -= values_[i];
  const GradientNorm error = gradient_norm(decoded_);
  return RouteSample{.error_energy = error.non_finite > 0 ? norm.energy : error.energy,
                     .energy = norm.energy};
}

// Stores the sample in values_ and the decoded values in decoded_.
Status RouteError::encode_and_decode(ConstValues sample, const Key& key) {
  const std::size_t count = sample.count;
  own_.resize(codec_->statistics_size(count));
  statistics_.resize(own_.size());
  widths_.resize(codec_->width_count(count));
  NF_RETURN_IF_ERROR(codec_->statistics(sample, own_));
  const std::span<const std::byte> by_rank[] = {own_};
  NF_RETURN_IF_ERROR(codec_->combine_statistics(count, by_rank, statistics_));
  const WidthRequest request[] = {{.count = count, .statistics = statistics_, .widths = widths_}};
  NF_RETURN_IF_ERROR(
      codec_->choose_widths(request, SumOrder{}, codec_->payload_capacity(std::span(&count, 1))));

  const Slice slice{.seed = key.seed,
                    .step = key.step,
                    .parameter = key.parameter,
                    .count = count,
                    .statistics = statistics_,
                    .widths = widths_};
  const Origin origin{.encoder = key.encoder};
  message_.resize(codec_->encoded_size(slice, origin.contributions));
  values_.resize(count);
  decoded_.resize(count);
  NF_RETURN_IF_ERROR(codec_->encode(slice, origin, sample, message_));
  NF_RETURN_IF_ERROR(codec_->decode(slice, origin, message_, decoded_));
  return dense_->encode(Slice{.count = count}, {}, sample,
                        std::as_writable_bytes(std::span(values_)));
}

RouteErrors::RouteErrors(const Binding& binding, std::uint64_t seed, std::uint32_t rank)
    : binding_(binding), seed_(seed), rank_(rank) {
  const std::size_t regions = binding.profile().regions.size();
  std::vector<std::vector<std::size_t>> counts(regions);
  std::vector<std::vector<std::size_t>> members(regions);
  for (std::size_t p = 0; p < binding.parameters().size(); ++p) {
    const ModelParameter& parameter = binding.parameters()[p];
    keys_.push_back(parameter_key(parameter.name));
    if (binding.is_small(p)) continue;
    counts[binding.region_of(p)].push_back(parameter.count);
    members[binding.region_of(p)].push_back(p);
  }
  for (std::size_t r = 0; r < regions; ++r) {
    regions_.push_back({.sampler = Sampler(counts[r]), .parameters = std::move(members[r])});
  }
}

Piece RouteErrors::sample(std::uint64_t step, std::size_t parameter,
                          const std::string& route) const {
  const Region& region = regions_[binding_.region_of(parameter)];
  if (route == kDenseRoute || region.sampler.pieces() == 0) return {};
  const Piece piece = region.sampler.at(step);
  return region.parameters[piece.parameter] == parameter ? piece : Piece{};
}

RouteSample RouteErrors::measure(std::uint64_t step, std::size_t parameter,
                                 const std::string& route, ConstValues sample) {
  auto found = routes_.find(route);
  if (found == routes_.end()) {
    Expected<RouteError> made = RouteError::create(route);
    if (!made) return {};  // binding and all-reduce reject such a route
    found = routes_.emplace(route, std::move(*made)).first;
  }
  const Expected<RouteSample> measured = found->second.measure(
      sample, {.seed = seed_, .step = step, .parameter = keys_[parameter], .encoder = rank_});
  return measured ? *measured : RouteSample{};
}

}  // namespace nf
