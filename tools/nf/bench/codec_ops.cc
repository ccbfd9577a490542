#include "nf/bench/codec_ops.h"

#include <algorithm>
#include <cstring>

#include "base/float16.h"
#include "nf/support/gradients.h"

namespace nf::cli {
namespace {

constexpr std::size_t kRanks = 2;
constexpr Origin kFirst{.encoder = 0, .contributions = 1};
constexpr Origin kSecond{.encoder = 1, .contributions = 2};

// A buffer whose pages are already mapped, so that page faults are not timed.
Buffer prefaulted(std::size_t size) {
  Buffer buffer(size);
  if (size > 0) std::memset(buffer.data(), 0, size);
  return buffer;
}

double value_at(ConstValues values, std::size_t i) {
  if (values.type == DataType::kFloat32) return static_cast<const float*>(values.data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(values.data)[i];
  return values.type == DataType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

}  // namespace

double vnmse_of(std::span<const ConstValues> exact, ConstValues actual) {
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < actual.count; ++i) {
    double sum = 0;
    for (const ConstValues& values : exact) sum += value_at(values, i);
    const double difference = value_at(actual, i) - sum;
    error += difference * difference;
    energy += sum * sum;
  }
  return error == 0 ? 0 : error / energy;
}

GradientPair::GradientPair(std::size_t count, DataType type, std::uint64_t seed)
    : count_(count), type_(type) {
  const GradientMixture mixture{.seed = seed};
  std::array<float, 16 * GradientMixture::kSuperGroup> part{};
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks_[rank] = Buffer(bytes());
    for (std::size_t first = 0; first < count; first += part.size()) {
      const auto values = std::span(part).first(std::min(part.size(), count - first));
      mixture.fill(rank, first, values);
      if (type == DataType::kFloat32) {
        std::copy(values.begin(), values.end(), ranks_[rank].as<float>().subspan(first).begin());
        continue;
      }
      std::transform(values.begin(), values.end(),
                     ranks_[rank].as<std::uint16_t>().subspan(first).begin(),
                     type == DataType::kBfloat16 ? float_to_bfloat16 : float_to_float16);
    }
  }
}

Expected<std::unique_ptr<CodecOps>> CodecOps::make(std::string_view spelling,
                                                   const GradientPair& gradients) {
  Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
  if (!codec) return codec.status();
  std::unique_ptr<CodecOps> ops(new CodecOps(std::move(*codec), gradients));
  if (Status status = ops->prepare(); !status.ok()) return status;
  return ops;
}

CodecOps::CodecOps(std::unique_ptr<Codec> codec, const GradientPair& gradients)
    : codec_(std::move(codec)), gradients_(gradients) {}

Status CodecOps::prepare() {
  const std::size_t count = gradients_.count();
  std::array<std::span<const std::byte>, kRanks> by_rank;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    own_statistics_[rank] = prefaulted(codec_->statistics_size(count));
    NF_RETURN_IF_ERROR(codec_->statistics(gradients_.values(rank), own_statistics_[rank].bytes()));
    by_rank[rank] = own_statistics_[rank].bytes();
  }
  statistics_ = prefaulted(codec_->statistics_size(count));
  NF_RETURN_IF_ERROR(codec_->combine_statistics(count, by_rank, statistics_.bytes()));
  widths_.resize(codec_->width_count(count));
  NF_RETURN_IF_ERROR(choose_widths());
  slice_ = {.seed = 1,
            .step = 1,
            .parameter = 1,
            .count = count,
            .ranks = kRanks,
            .statistics = statistics_.bytes(),
            .widths = widths_};
  message_ = prefaulted(codec_->encoded_size(slice_, kFirst.contributions));
  sum_ = prefaulted(codec_->encoded_size(slice_, kSecond.contributions));
  values_ = prefaulted(gradients_.bytes());
  add_statistics_ops();
  add_message_ops();
  return codec_->encode(slice_, kFirst, gradients_.values(0), message_.bytes());
}

Status CodecOps::choose_widths() {
  const WidthRequest request{
      .count = gradients_.count(), .statistics = statistics_.bytes(), .widths = widths_};
  return codec_->choose_widths({&request, 1}, {.ranks = kRanks});
}

double CodecOps::bits_of(const Buffer& message) const {
  if (gradients_.count() == 0) return 0;
  return 8.0 * static_cast<double>(message.size() + statistics_.size()) /
         static_cast<double>(gradients_.count());
}

void CodecOps::add_statistics_ops() {
  if (codec_->statistics_size(1) > 0) {
    ops_.push_back(
        {.name = "statistics", .bytes = gradients_.bytes() + statistics_.size(), .run = [this] {
           return codec_->statistics(gradients_.values(0), own_statistics_[0].bytes());
         }});
  }
  if (codec_->width_count(1) > 0) {
    ops_.push_back({.name = "widths", .bytes = statistics_.size() + widths_.size(), .run = [this] {
                      return choose_widths();
                    }});
  }
}

void CodecOps::add_message_ops() {
  const Values out(values_.data(), gradients_.count(), gradients_.type());
  ops_.push_back({.name = "encode",
                  .bytes = gradients_.bytes() + message_.size(),
                  .bits = bits_of(message_),
                  .run =
                      [this] {
                        return codec_->encode(slice_, kFirst, gradients_.values(0),
                                              message_.bytes());
                      },
                  .vnmse = [this] { return message_vnmse(); }});
  ops_.push_back(
      {.name = "decode",
       .bytes = message_.size() + gradients_.bytes(),
       .bits = bits_of(message_),
       .run = [this, out] { return codec_->decode(slice_, kFirst, message_.bytes(), out); },
       .vnmse = [this] { return message_vnmse(); }});
  ops_.push_back(
      {.name = "decode_add",
       .bytes = message_.size() + 2 * gradients_.bytes(),
       .bits = bits_of(message_),
       .run = [this, out] { return codec_->decode_add(slice_, kFirst, message_.bytes(), out); },
       .vnmse = [this] { return decode_add_vnmse(); }});
  ops_.push_back({.name = "decode_add_encode",
                  .bytes = message_.size() + gradients_.bytes() + sum_.size(),
                  .bits = bits_of(sum_),
                  .run =
                      [this] {
                        return codec_->decode_add_encode(slice_, kFirst, message_.bytes(),
                                                         gradients_.values(1), kSecond,
                                                         sum_.bytes());
                      },
                  .vnmse = [this] { return hop_vnmse(); }});
}

Expected<double> CodecOps::message_vnmse() {
  const Values out(values_.data(), gradients_.count(), gradients_.type());
  if (Status status = codec_->decode(slice_, kFirst, message_.bytes(), out); !status.ok()) {
    return status;
  }
  return vnmse_of(std::array{gradients_.values(0)}, out);
}

Expected<double> CodecOps::decode_add_vnmse() {
  const Values out(values_.data(), gradients_.count(), gradients_.type());
  if (gradients_.bytes() > 0) {
    std::memcpy(out.data, gradients_.values(1).data, gradients_.bytes());
  }
  if (Status status = codec_->decode_add(slice_, kFirst, message_.bytes(), out); !status.ok()) {
    return status;
  }
  return vnmse_of(std::array{gradients_.values(0), gradients_.values(1)}, out);
}

Expected<double> CodecOps::hop_vnmse() {
  const Values out(values_.data(), gradients_.count(), gradients_.type());
  if (Status status = codec_->decode(slice_, kSecond, sum_.bytes(), out); !status.ok()) {
    return status;
  }
  return vnmse_of(std::array{gradients_.values(0), gradients_.values(1)}, out);
}

}  // namespace nf::cli
