#include "nf/support/gradients.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "base/random.h"

namespace nf::cli {
namespace {

// The published fit: share, mean and standard deviation of the natural log of M, per component.
constexpr double kLoudShare = 0.79;
constexpr double kLoudMean = -3.99;
constexpr double kLoudDeviation = 1.22;
constexpr double kQuietMean = -16.41;
constexpr double kQuietDeviation = 4.63;

constexpr std::size_t kPairs = GradientMixture::kSuperGroup / 2;
using Normals = std::array<double, GradientMixture::kSuperGroup>;

// Indices [first, last) within a super-group.
struct Range {
  std::size_t first = 0;
  std::size_t last = GradientMixture::kSuperGroup;

  bool contains(std::size_t index) const { return first <= index && index < last; }
};

// The random streams of a seed; rank r draws from kFirstRank + r.
enum Stream : std::uint64_t { kMagnitude, kCommon, kFirstRank };

std::uint64_t stream_key(std::uint64_t seed, std::uint64_t stream) {
  return mix64(mix64(seed + kGolden64) + stream * kGolden64);
}

std::uint64_t draw(std::uint64_t key, std::uint64_t index) {
  return mix64(key + index * kGolden64);
}

// The C library's logarithm, exponential and sine differ in the last bits between platforms. These
// short series are accurate to 1e-9 and give the same bits everywhere.

// Precondition: x is positive and normal.
double natural_log(double x) {
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  auto m = std::bit_cast<double>((bits & kFraction) | std::uint64_t{1023} << 52);
  if (m > std::numbers::sqrt2) {
    m *= 0.5;
    exponent += 1;
  }
  const double s = (m - 1) / (m + 1);  // log m = 2 atanh s
  const double t = s * s;
  double sum = 1.0 / 15;
  for (const double term : {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0}) {
    sum = sum * t + term;
  }
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

double exponential(double x) {
  const double n = std::floor(x * std::numbers::log2e + 0.5);
  const double r = x - n * std::numbers::ln2;
  double sum = 1;
  for (int k = 12; k > 0; --k) sum = 1 + sum * r / k;
  return std::ldexp(sum, static_cast<int>(n));
}

// Two independent normal values from 64 random bits (Box-Muller): the low 32 bits give the radius,
// the next two select the quadrant, the others give the angle within it.
std::pair<double, double> normal_pair(std::uint64_t bits) {
  const double u = (static_cast<double>(bits & 0xffffffffu) + 1) * 0x1p-32;
  const double radius = std::sqrt(-2 * natural_log(u));
  const double turn = static_cast<double>(bits >> 34) * 0x1p-30 - 0.5;
  const double angle = turn * (std::numbers::pi / 2);
  const double t = angle * angle;
  const double sine =
      angle * (1 + t * (-1.0 / 6 +
                        t * (1.0 / 120 + t * (-1.0 / 5040 + t * (1.0 / 362880 - t / 39916800)))));
  const double cosine =
      1 + t * (-1.0 / 2 + t * (1.0 / 24 + t * (-1.0 / 720 + t * (1.0 / 40320 - t / 3628800))));
  const bool is_swapped = ((bits >> 32) & 1) != 0;
  const double signed_radius = ((bits >> 33) & 1) != 0 ? -radius : radius;
  return {signed_radius * (is_swapped ? -sine : cosine),
          signed_radius * (is_swapped ? cosine : sine)};
}

// Fills in the normal values of a super-group that `range` needs.
void fill_normals(std::uint64_t key, std::uint64_t block, Range range, Normals& normals) {
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    if (!range.contains(pair) && !range.contains(pair + kPairs)) continue;
    const auto [x, y] = normal_pair(draw(key, block * kPairs + pair));
    normals[pair] = x;
    normals[pair + kPairs] = y;
  }
}

double magnitude(std::uint64_t key, std::uint64_t block) {
  const bool is_loud = static_cast<double>(draw(key, 2 * block) >> 11) * 0x1p-53 < kLoudShare;
  const double normal = normal_pair(draw(key, 2 * block + 1)).first;
  return is_loud ? exponential(kLoudMean + kLoudDeviation * normal)
                 : exponential(kQuietMean + kQuietDeviation * normal);
}

// The standard deviation of the values of one super-group.
double deviation_of(const GradientMixture& mixture, std::uint64_t block) {
  if (mixture.is_gaussian) return 1;
  return magnitude(stream_key(mixture.seed, kMagnitude), block) / 16;  // sqrt(256)
}

// The component of a super-group's values that all ranks share, for standard deviation 1.
void fill_shared(const GradientMixture& mixture, std::uint64_t block, Range range,
                 Normals& shared) {
  if (mixture.correlation == 0) return;
  fill_normals(stream_key(mixture.seed, kCommon), block, range, shared);
  const double share = std::sqrt(mixture.correlation);
  for (double& value : shared) value *= share;
}

// The values of one rank in a range of a super-group.
void fill_values(const GradientMixture& mixture, std::uint32_t rank, std::uint64_t block,
                 Range range, const double* shared, double deviation, float* values) {
  Normals own{};
  if (mixture.correlation < 1) {
    fill_normals(stream_key(mixture.seed, kFirstRank + rank), block, range, own);
  }
  const double share = std::sqrt(1 - mixture.correlation);
  for (std::size_t i = range.first; i < range.last; ++i) {
    *values++ = static_cast<float>(deviation * (shared[i] + share * own[i]));
  }
}

// Calls work(super-group, range within it, pointer to its values) for all of `values`.
template <typename Work>
void for_each_block(std::uint64_t first, std::span<float> values, Work work) {
  for (std::size_t at = 0; at < values.size();) {
    const std::uint64_t index = first + at;
    const std::size_t start = index % GradientMixture::kSuperGroup;
    const std::size_t end =
        std::min<std::size_t>(GradientMixture::kSuperGroup, start + values.size() - at);
    work(index / GradientMixture::kSuperGroup, Range{start, end}, values.data() + at);
    at += end - start;
  }
}

}  // namespace

void GradientMixture::fill(std::uint32_t rank, std::uint64_t first, std::span<float> values) const {
  for_each_block(first, values, [&](std::uint64_t block, Range range, float* to) {
    Normals shared{};
    fill_shared(*this, block, range, shared);
    fill_values(*this, rank, block, range, shared.data(), deviation_of(*this, block), to);
  });
}

CommonGradients::CommonGradients(const GradientMixture& mixture, std::uint64_t count)
    : mixture_(mixture) {
  const std::uint64_t blocks =
      (count + GradientMixture::kSuperGroup - 1) / GradientMixture::kSuperGroup;
  shared_.reserve(blocks * GradientMixture::kSuperGroup);
  deviations_.reserve(blocks);
  for (std::uint64_t block = 0; block < blocks; ++block) {
    Normals shared{};
    fill_shared(mixture, block, Range{}, shared);
    shared_.insert(shared_.end(), shared.begin(), shared.end());
    deviations_.push_back(deviation_of(mixture, block));
  }
}

void CommonGradients::fill(std::uint32_t rank, std::uint64_t first, std::span<float> values) const {
  for_each_block(first, values, [&](std::uint64_t block, Range range, float* to) {
    fill_values(mixture_, rank, block, range, shared_.data() + block * GradientMixture::kSuperGroup,
                deviations_[block], to);
  });
}

}  // namespace nf::cli
