// The scalar reference of thc. It follows docs/codecs/thc.md line by line.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/thc/thc_kernels.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

float flushed(float x) { return magnitude_bits(x) < magnitude_bits(kThcMin) ? 0.0f : x; }

std::uint32_t draw_of(const DrawStream& stream, std::uint64_t element) {
  return draw16(DrawKey(stream, element / kDrawBlock),
                static_cast<std::uint32_t>(element % kDrawBlock));
}

float rotation_sign(const DrawStream& rotation, std::uint64_t element) {
  return draw_of(rotation, element) < 0x8000 ? 1.0f : -1.0f;
}

// The Walsh-Hadamard transform without the factor 1 / sqrt(size).
void transform(std::vector<float>& h) {
  for (std::size_t half = 1; half < h.size(); half *= 2) {
    for (std::size_t i = 0; i < h.size(); ++i) {
      if ((i & half) != 0) continue;
      const float a = h[i];
      const float b = h[i + half];
      h[i] = a + b;
      h[i + half] = a - b;
    }
  }
}

void norms(const float* values, std::size_t blocks, std::size_t size, std::byte* out) {
  for (std::size_t b = 0; b < blocks; ++b) {
    // Sixteen running sums, folded in halves.
    float sums[16] = {};
    for (std::size_t i = 0; i < size; ++i) {
      const float x = flushed(values[b * size + i]);
      sums[i % 16] += x * x;
    }
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    const bool finite = std::isfinite(sums[0]);
    put_u16(finite ? float_to_bfloat16_up(std::sqrt(sums[0])) : kBfloat16Nan, out + 2 * b);
  }
}

// The codes of block b of one rank.
std::vector<std::uint32_t> codes_of(const ThcBlocks& blocks, std::size_t b,
                                    const DrawStream& rounding, const float* values) {
  std::vector<std::uint32_t> codes(blocks.size);
  const std::uint16_t norm = get_u16(blocks.norms + 2 * b);
  if (!thc_has_codes(norm)) return codes;
  const std::uint64_t first = blocks.first + b * blocks.size;
  std::vector<float> h(blocks.size);
  for (std::size_t i = 0; i < blocks.size; ++i) {
    h[i] = rotation_sign(blocks.rotation, first + i) * flushed(values[b * blocks.size + i]);
  }
  transform(h);
  const float to_codes = blocks.to_codes(bfloat16_to_float(norm));
  for (std::size_t i = 0; i < blocks.size; ++i) {
    const auto dither = std::bit_cast<float>(kThcDitherBits | draw_of(rounding, first + i) << 7);
    const float position = std::fma(h[i], to_codes, dither);
    const float raised = position > -kThcBelow ? position : -kThcBelow;  // also for NaN
    const float clamped = std::min(raised, static_cast<float>(kThcTop) - kThcBelow);
    codes[i] = static_cast<std::uint32_t>(std::nearbyint(clamped) + kThcBelow);
  }
  return codes;
}

std::size_t block_bytes(const ThcBlocks& blocks, unsigned width) {
  return blocks.packs() * pack_bytes(width);
}

void put_codes(const std::vector<std::uint32_t>& codes, unsigned width, std::byte* wire) {
  for (std::size_t i = 0; i < codes.size(); i += kPack) {
    pack_codes(&codes[i], width, wire + i / kPack * pack_bytes(width));
  }
}

std::vector<std::uint32_t> get_codes(const std::byte* wire, unsigned width, std::size_t count) {
  std::vector<std::uint32_t> codes(count);
  for (std::size_t i = 0; i < count; i += kPack) {
    unpack_codes(wire + i / kPack * pack_bytes(width), width, &codes[i]);
  }
  return codes;
}

void encode(const ThcBlocks& blocks, const DrawStream& rounding, const float* values,
            std::byte* wire) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    put_codes(codes_of(blocks, b, rounding, values), kThcWidth,
              wire + b * block_bytes(blocks, kThcWidth));
  }
}

std::uint32_t max_code(const std::byte* wire, std::size_t packs, unsigned width) {
  const std::vector<std::uint32_t> codes = get_codes(wire, width, packs * kPack);
  return codes.empty() ? 0 : *std::max_element(codes.begin(), codes.end());
}

std::vector<float> decode_block(const ThcBlocks& blocks, std::size_t b, ThcIn wire) {
  std::vector<float> h(blocks.size);
  const std::uint16_t norm = get_u16(blocks.norms + 2 * b);
  if (!thc_has_codes(norm)) {
    if (thc_is_poisoned(norm))
      std::fill(h.begin(), h.end(), std::numeric_limits<float>::quiet_NaN());
    return h;
  }
  const unsigned width = wire.codes.width();
  const auto codes = get_codes(wire.bytes + b * block_bytes(blocks, width), width, blocks.size);
  for (std::size_t i = 0; i < blocks.size; ++i) {
    h[i] = static_cast<float>(codes[i]) - wire.codes.centre();
  }
  transform(h);
  const float step = blocks.step(bfloat16_to_float(norm));
  for (std::size_t i = 0; i < blocks.size; ++i) {
    h[i] = rotation_sign(blocks.rotation, blocks.first + b * blocks.size + i) * (h[i] * step);
  }
  return h;
}

void decode(const ThcBlocks& blocks, ThcIn wire, float* values) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const std::vector<float> decoded = decode_block(blocks, b, wire);
    std::copy(decoded.begin(), decoded.end(), values + b * blocks.size);
  }
}

void decode_add(const ThcBlocks& blocks, ThcIn wire, float* values) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const std::vector<float> decoded = decode_block(blocks, b, wire);
    for (std::size_t i = 0; i < blocks.size; ++i) values[b * blocks.size + i] += decoded[i];
  }
}

// Adds `others` to `codes` and saturates.
void add_codes(std::uint32_t excess, std::uint32_t top, const std::vector<std::uint32_t>& others,
               std::vector<std::uint32_t>& codes) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::uint32_t sum = codes[i] + others[i];
    codes[i] = std::min(sum - std::min(sum, excess), top);
  }
}

void decode_add_encode(const ThcBlocks& blocks, const DrawStream& rounding, ThcIn wire,
                       const float* values, ThcOut out) {
  const unsigned width_in = wire.codes.width();
  const unsigned width_out = out.codes.width();
  const std::uint32_t excess = thc_excess(wire.codes, {.top = kThcTop}, out.codes);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    auto codes = get_codes(wire.bytes + b * block_bytes(blocks, width_in), width_in, blocks.size);
    add_codes(excess, out.codes.top, codes_of(blocks, b, rounding, values), codes);
    put_codes(codes, width_out, out.bytes + b * block_bytes(blocks, width_out));
  }
}

void merge(std::size_t packs, ThcIn first, ThcIn second, ThcOut out) {
  auto codes = get_codes(first.bytes, first.codes.width(), packs * kPack);
  const auto others = get_codes(second.bytes, second.codes.width(), packs * kPack);
  add_codes(thc_excess(first.codes, second.codes, out.codes), out.codes.top, others, codes);
  put_codes(codes, out.codes.width(), out.bytes);
}

constexpr ThcKernels kReference = {norms, encode, max_code, decode, decode_add, decode_add_encode,
                                   merge};

}  // namespace

const ThcKernels& thc_reference() { return kReference; }

}  // namespace nf
