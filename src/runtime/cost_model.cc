#include "runtime/cost_model.h"

#include <algorithm>
#include <cmath>

#include "runtime/plan.h"

namespace nf {
namespace {

constexpr double kCorrectionWeight = 0.1;
constexpr double kMinCorrection = 0.1;
constexpr double kMaxCorrection = 10;

double seconds_of(double bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? bytes / bytes_per_second : 0;
}

// NaN means no correction.
double within_limits(double correction) {
  return std::isnan(correction) ? 1 : std::clamp(correction, kMinCorrection, kMaxCorrection);
}

double corrected(double correction, double predicted, double measured) {
  const double ratio = measured / predicted;
  if (!(predicted > 0) || !(ratio > 0) || !std::isfinite(ratio)) return correction;
  // Clamp before smoothing: one step that hung must not outweigh the ten after it.
  return correction + kCorrectionWeight * (within_limits(correction * ratio) - correction);
}

// The share of each region in the bytes of all low-bit candidates.
std::vector<double> shares_of(std::span<const BucketLoad> step,
                              const std::vector<bool>& candidates) {
  std::vector<double> shares(candidates.size());
  double total = 0;
  for (const BucketLoad& bucket : step) {
    for (const BucketLoad::LowBit& part : bucket.low_bit) {
      if (!candidates[part.region]) continue;
      shares[part.region] += static_cast<double>(part.bytes);
      total += static_cast<double>(part.bytes);
    }
  }
  for (double& share : shares) share = total > 0 ? share / total : 0;
  return shares;
}

}  // namespace

double dense_share(Collective collective, std::uint32_t ranks) {
  const double once = (ranks - 1.0) / ranks;
  return collective == Collective::kReduceScatter ? once : 2 * once;
}

CostModel::CostModel(const LinkFigures& link, std::uint32_t ranks, Collective collective)
    : link_(link), ranks_(ranks), dense_share_(dense_share(collective, ranks)) {}

double CostModel::dense_seconds(std::size_t bytes) const {
  if (ranks_ <= 1 || bytes == 0) return 0;
  const double sent = dense_share_ * static_cast<double>(bytes);
  return dense_correction_ * (link_.dense_latency + seconds_of(sent, link_.dense_bytes_per_second));
}

double CostModel::link_seconds(double bytes) const {
  return seconds_of(bytes, link_.bytes_per_second);
}

double CostModel::low_bit_seconds(const BucketLoad::LowBit& part) const {
  const std::vector<bool> marked(part.region + 1, true);
  return bucket_seconds({.low_bit = {part}}, marked).low_bit;
}

// Adds link and codec time, although tiles overlap them. If one of them dominates, this hardly
// matters; if ranks share cores with the transport, the sum is closer.
CostModel::BucketSeconds CostModel::bucket_seconds(const BucketLoad& bucket,
                                                   const std::vector<bool>& is_low_bit) const {
  if (ranks_ <= 1) return {};
  std::size_t dense_bytes = bucket.dense_bytes;
  std::uint32_t hops = 0;         // of collectives one after another
  std::uint32_t joined_hops = 0;  // of the exchange
  double seconds = 0;
  bool has_low_bit = false;
  for (const BucketLoad::LowBit& part : bucket.low_bit) {
    if (!is_low_bit[part.region]) {
      dense_bytes += part.bytes;
      continue;
    }
    if (part.values == 0) continue;
    has_low_bit = true;
    if (part.is_alone) {
      hops += part.hops;
    } else {
      joined_hops = std::max(joined_hops, part.hops);
    }
    seconds += link_seconds(static_cast<double>(part.wire_bytes)) +
               static_cast<double>(part.values) * part.codec.seconds_per_value;
  }
  if (!has_low_bit) return {.dense = dense_seconds(dense_bytes)};
  const bool joins_dense = dense_bytes <= kMaxJoinedDenseBytes;
  if (joins_dense) seconds += link_seconds(dense_share_ * static_cast<double>(dense_bytes));
  seconds += (hops + joined_hops) * link_.latency;
  return {.low_bit = low_bit_correction_ * seconds,
          .dense = joins_dense ? 0 : dense_seconds(dense_bytes)};
}

double CostModel::exposed_seconds(std::span<const BucketLoad> step,
                                  const std::vector<bool>& is_low_bit) const {
  double last_ready = 0;
  double done = 0;
  for (const BucketLoad& bucket : step) {
    last_ready = std::max(last_ready, bucket.ready);
    done = std::max(done, bucket.ready) + bucket_seconds(bucket, is_low_bit).total();
  }
  return std::max(done - last_ready, 0.0);
}

std::vector<bool> CostModel::useful(std::span<const BucketLoad> step,
                                    const std::vector<bool>& candidates,
                                    const std::vector<bool>& in_use, double margin) const {
  const std::vector<double> shares = shares_of(step, candidates);
  std::vector<bool> chosen = candidates;
  for (;;) {
    const double with = exposed_seconds(step, chosen);
    double least = 0;
    std::size_t worst = chosen.size();
    for (std::size_t r = 0; r < chosen.size(); ++r) {
      if (!chosen[r]) continue;
      chosen[r] = false;
      const double without = exposed_seconds(step, chosen);
      chosen[r] = true;
      const double needed = in_use[r] ? 0 : margin * shares[r] * without;
      const double surplus = without - with - needed;
      if (surplus <= least) {
        least = surplus;
        worst = r;
      }
    }
    if (worst == chosen.size()) break;
    chosen[worst] = false;
  }
  // Regions share the latency of an exchange: each may gain given the others, but not all of them.
  const std::vector<bool> none(chosen.size(), false);
  return exposed_seconds(step, chosen) <= exposed_seconds(step, none) ? chosen : none;
}

void CostModel::correct_dense(double predicted, double measured) {
  dense_correction_ = corrected(dense_correction_, predicted, measured);
}

void CostModel::correct_low_bit(double predicted, double measured) {
  low_bit_correction_ = corrected(low_bit_correction_, predicted, measured);
}

void CostModel::load_corrections(double dense, double low_bit) {
  dense_correction_ = within_limits(dense);
  low_bit_correction_ = within_limits(low_bit);
}

}  // namespace nf
