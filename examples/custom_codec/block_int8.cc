// block_int8: the 32 values of a block share a power of two, and each value is an 8-bit multiple of
// it (block_int8.md). A complete codec in one file that uses only the public headers of the
// library.
#include <neuron_fabric/codec.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

constexpr std::size_t kBlock = 32;
constexpr std::size_t kBlockBytes = 1 + kBlock;

// The first byte of a block: the exponent of its step, or kPoisonMark if the block decodes to NaN.
constexpr int kExponentBias = 127;
constexpr int kMinExponent = -126;  // the smallest normal step
constexpr int kMaxExponent = 120;   // for a peak just below kPoison
constexpr std::uint8_t kPoisonMark = 255;
// A block with a magnitude of at least this is poisoned: its values could round up to infinity.
constexpr float kPoison = 0x1p126f;

std::size_t blocks_of(std::size_t count) { return (count + kBlock - 1) / kBlock; }

// The smallest exponent with peak <= 127 steps.
int exponent_of(float peak) {
  int exponent = 0;
  const float fraction = std::frexp(peak, &exponent);  // peak = fraction * 2^exponent
  const int smallest = fraction <= 127.0f / 128.0f ? exponent - 7 : exponent - 6;
  return std::max(smallest, kMinExponent);
}

// Encodes a block of `held` <= 32 values; the other codes are zero.
void encode_block(const float* values, std::size_t held, std::byte* wire) {
  std::fill(wire, wire + kBlockBytes, std::byte{0});
  float peak = 0;
  for (std::size_t i = 0; i < held; ++i) {
    const float magnitude = std::fabs(values[i]);
    if (!(magnitude < kPoison)) {  // true for NaN
      wire[0] = std::byte{kPoisonMark};
      return;
    }
    peak = std::max(peak, magnitude);
  }
  const int exponent = exponent_of(peak);
  const float inverse = std::ldexp(1.0f, -exponent);
  wire[0] = static_cast<std::byte>(exponent + kExponentBias);
  for (std::size_t i = 0; i < held; ++i) {
    wire[1 + i] = static_cast<std::byte>(static_cast<int>(std::nearbyint(values[i] * inverse)));
  }
}

void decode_block(const std::byte* wire, std::size_t held, float* values) {
  if (wire[0] == std::byte{kPoisonMark}) {
    std::fill(values, values + held, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const float step = std::ldexp(1.0f, std::to_integer<int>(wire[0]) - kExponentBias);
  for (std::size_t i = 0; i < held; ++i) {
    values[i] = static_cast<float>(std::bit_cast<std::int8_t>(wire[1 + i])) * step;
  }
}

class BlockInt8 final : public nf::Codec {
 public:
  BlockInt8(const nf::CodecSpec& spec, std::unique_ptr<nf::Codec> fp32)
      : Codec(spec), fp32_(std::move(fp32)) {}

  nf::CodecKind kind() const override { return nf::CodecKind::kRequantising; }
  std::size_t granule() const override { return kBlock; }
  std::size_t encoded_size(const nf::Slice& slice, std::uint32_t /*contributions*/) const override {
    return blocks_of(slice.count) * kBlockBytes;
  }

 protected:
  nf::Status do_validate(const nf::Slice& slice, nf::Origin /*origin*/,
                         const std::byte* wire) const override {
    const auto corrupt = [](const char* what) {
      return nf::Status(nf::ErrorCode::kCorruptFrame, what);
    };
    for (std::size_t first = 0; first < slice.count; first += kBlock, wire += kBlockBytes) {
      const std::size_t held = std::min(kBlock, slice.count - first);
      const bool poisoned = wire[0] == std::byte{kPoisonMark};
      const int exponent = std::to_integer<int>(wire[0]) - kExponentBias;
      if (!poisoned && (exponent < kMinExponent || exponent > kMaxExponent)) {
        return corrupt("block_int8: exponent out of range");
      }
      for (std::size_t i = 0; i < kBlock; ++i) {
        const bool is_padding = poisoned || i >= held;
        if (is_padding && wire[1 + i] != std::byte{0})
          return corrupt("block_int8: padding is not 0");
        if (wire[1 + i] == std::byte{0x80}) return corrupt("block_int8: invalid code -128");
      }
    }
    return {};
  }

  void do_encode(const nf::Slice& /*slice*/, nf::Origin /*origin*/, nf::ConstValues values,
                 std::byte* wire) const override {
    encode_floats(to_floats(values), wire);
  }

  void do_decode(const nf::Slice& slice, nf::Origin /*origin*/, const std::byte* wire,
                 nf::Values values) const override {
    from_floats(decode_floats(wire, slice.count), values);
  }

  void do_decode_add(const nf::Slice& /*slice*/, nf::Origin /*origin*/, const std::byte* wire,
                     nf::Values values) const override {
    from_floats(sum(values, wire), values);
  }

  void do_decode_add_encode(const nf::Slice& /*slice*/, nf::Origin /*origin*/,
                            const std::byte* wire, nf::ConstValues values, nf::Origin /*total*/,
                            std::byte* out) const override {
    encode_floats(sum(values, wire), out);
  }

 private:
  static void encode_floats(std::span<const float> values, std::byte* wire) {
    for (std::size_t first = 0; first < values.size(); first += kBlock, wire += kBlockBytes) {
      encode_block(&values[first], std::min(kBlock, values.size() - first), wire);
    }
  }

  static std::vector<float> decode_floats(const std::byte* wire, std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t first = 0; first < count; first += kBlock, wire += kBlockBytes) {
      decode_block(wire, std::min(kBlock, count - first), &values[first]);
    }
    return values;
  }

  std::vector<float> sum(nf::ConstValues values, const std::byte* wire) const {
    std::vector<float> sums = to_floats(values);
    const std::vector<float> decoded = decode_floats(wire, values.count);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += decoded[i];
    return sums;
  }

  // Convert values of any type to FP32 and back. A message of the codec `fp32` consists of the
  // values as FP32, so it does the conversions. It cannot fail because the sizes match.
  std::vector<float> to_floats(nf::ConstValues values) const {
    std::vector<float> floats(values.count);
    static_cast<void>(fp32_->encode({.count = values.count}, {}, values,
                                    std::as_writable_bytes(std::span(floats))));
    return floats;
  }
  void from_floats(std::span<const float> floats, nf::Values values) const {
    static_cast<void>(fp32_->decode({.count = values.count}, {}, std::as_bytes(floats), values));
  }

  const std::unique_ptr<nf::Codec> fp32_;
};

}  // namespace

nf::Expected<std::unique_ptr<nf::Codec>> make_block_int8(const nf::CodecSpec& spec) {
  NF_RETURN_IF_ERROR(spec.allow(/*takes_value=*/false, /*known=*/{}));
  nf::Expected<std::unique_ptr<nf::Codec>> fp32 = nf::make_codec("fp32");
  if (!fp32) return fp32.status();
  return std::unique_ptr<nf::Codec>(std::make_unique<BlockInt8>(spec, std::move(*fp32)));
}
