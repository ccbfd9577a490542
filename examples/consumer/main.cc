// Encodes and decodes 10,000 gradient values with `waterfill:4` and prints the bits per element and
// the error. Fails if the error exceeds kMaxError.
#include <neuron_fabric/codec.h>
#include <neuron_fabric/version.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace {

constexpr std::size_t kCount = 10'000;
// The limit of ||decoded - value||^2 / ||value||^2, which is 0.0226 for these values.
constexpr double kMaxError = 0.03;

struct Result {
  double bits = 0;  // per element, statistics included
  double error = 0;
};

std::vector<float> normal_values() {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0F, 1e-3F);
  std::vector<float> values(kCount);
  for (float& value : values) value = normal(generator);
  return values;
}

double relative_error(std::span<const float> exact, std::span<const float> decoded) {
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = double{decoded[i]} - double{exact[i]};
    error += difference * difference;
    energy += double{exact[i]} * double{exact[i]};
  }
  return error / energy;
}

nf::Expected<Result> round_trip(std::span<const float> values) {
  nf::Expected<std::unique_ptr<nf::Codec>> made = nf::make_codec("waterfill:4");
  if (!made) return made.status();
  const nf::Codec& codec = **made;

  // The statistics stage: combine the statistics of all ranks (here one) and choose the widths.
  std::vector<std::byte> own(codec.statistics_size(kCount));
  std::vector<std::byte> combined(own.size());
  std::vector<std::uint8_t> widths(codec.width_count(kCount));
  const std::vector<std::span<const std::byte>> by_rank{own};
  const std::vector<nf::WidthRequest> parameters{
      {.count = kCount, .statistics = combined, .widths = widths}};
  NF_RETURN_IF_ERROR(codec.statistics(values, own));
  NF_RETURN_IF_ERROR(codec.combine_statistics(kCount, by_rank, combined));
  NF_RETURN_IF_ERROR(codec.choose_widths(parameters, {.ranks = 1}));

  // The payload.
  const nf::Slice slice{.seed = 1, .count = kCount, .statistics = combined, .widths = widths};
  const nf::Origin origin{};
  std::vector<std::byte> wire(codec.encoded_size(slice, origin.contributions));
  std::vector<float> decoded(kCount);
  NF_RETURN_IF_ERROR(codec.encode(slice, origin, values, wire));
  NF_RETURN_IF_ERROR(codec.decode(slice, origin, wire, std::span<float>(decoded)));

  return Result{.bits = 8.0 * static_cast<double>(wire.size() + own.size()) / kCount,
                .error = relative_error(values, decoded)};
}

}  // namespace

int main() {
  const nf::Expected<Result> result = round_trip(normal_values());
  if (!result) {
    std::fprintf(stderr, "consumer: %s\n", nf::to_string(result.status()).c_str());
    return 1;
  }
  std::printf("neuron_fabric %s, waterfill:4: %zu values, %.3f bits per element, error %.4f\n",
              nf::kVersion, kCount, result->bits, result->error);
  return result->error <= kMaxError ? 0 : 1;
}
