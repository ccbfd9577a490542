// Adds `block_int8` to the codecs of the library, checks the contract of a codec, and prints the
// bits per element and the error over a chain of ranks. Fails if the contract is violated.
#include <neuron_fabric/codec.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

nf::Expected<std::unique_ptr<nf::Codec>> make_block_int8(const nf::CodecSpec& spec);

namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

// The table of the library and one more entry.
std::vector<nf::CodecEntry> all_codecs() {
  const auto builtin = nf::builtin_codecs();
  std::vector<nf::CodecEntry> entries(builtin.begin(), builtin.end());
  entries.push_back({"block_int8", "block_int8", "8.25 bits, one step per block", make_block_int8});
  return entries;
}

int failures = 0;

void check(bool condition, const char* contract) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", contract);
  ++failures;
}

// Bitwise equality: a NaN equals itself, and -0 differs from +0.
bool same(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

Floats normal_values(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, 1e-3f);
  Floats values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

Floats sum_of(Floats a, const Floats& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// The operations of one codec on one slice, as functions that return their result.
struct Link {
  const nf::Codec& codec;
  nf::Slice slice;

  Bytes encode(nf::Origin origin, const Floats& values) const {
    // Not zero, so that a byte that encode() does not write is detected.
    Bytes wire(codec.encoded_size(slice, origin.contributions), std::byte{0xa5});
    check(codec.encode(slice, origin, std::span(values), wire).ok(), "encode() succeeds");
    return wire;
  }
  Floats decode(nf::Origin origin, const Bytes& wire) const {
    Floats values(slice.count, -1.0f);
    check(codec.decode(slice, origin, wire, std::span(values)).ok(), "decode() succeeds");
    return values;
  }
  Floats decode_add(nf::Origin origin, const Bytes& wire, Floats values) const {
    check(codec.decode_add(slice, origin, wire, std::span(values)).ok(), "decode_add() succeeds");
    return values;
  }
  Bytes decode_add_encode(nf::Origin origin, const Bytes& wire, const Floats& values,
                          std::uint32_t encoder) const {
    Bytes out(codec.encoded_size(slice, origin.contributions + 1), std::byte{0xa5});
    check(codec
              .decode_add_encode(slice, origin, wire, std::span(values),
                                 {encoder, origin.contributions + 1}, out)
              .ok(),
          "decode_add_encode() succeeds");
    return out;
  }
};

void check_contract(const nf::Codec& codec, std::size_t count) {
  const Link link{codec, {.count = count, .ranks = 2}};
  const nf::Origin one{.encoder = 0, .contributions = 1};
  const nf::Origin both{.encoder = 1, .contributions = 2};
  const Floats first = normal_values(count, 1);
  const Floats second = normal_values(count, 2);

  const Bytes wire = link.encode(one, first);
  check(wire == link.encode(one, first), "the same values give the same bytes");
  Bytes longer(wire.size() + 1);
  check(!codec.encode(link.slice, one, std::span(first), longer).ok(), "sizes are checked");

  const Floats sum = sum_of(second, link.decode(one, wire));
  check(same(link.decode_add(one, wire, second), sum), "decode_add() is v + decode(), to the bit");
  check(link.decode_add_encode(one, wire, second, 1) == link.encode(both, sum),
        "decode_add_encode() is encode(v + decode()), to the byte");
  check(same(link.decode(one, link.encode(one, Floats(count))), Floats(count)), "zeros stay zeros");

  if (count == 0) return;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Floats poisoned = first;
    poisoned[count / 2] = bad;
    const Bytes hop = link.decode_add_encode(one, link.encode(one, poisoned), second, 1);
    check(std::isnan(link.decode(both, hop)[count / 2]), "NaN and Inf propagate through a hop");
  }

  Bytes invalid = wire;
  invalid[0] = std::byte{254};  // an invalid exponent
  Floats untouched = first;
  check(
      !codec.decode(link.slice, one, invalid, std::span(untouched)).ok() && same(untouched, first),
      "invalid bytes are rejected, and nothing is written");
}

// 16-bit gradients are passed as bit patterns; 0x3f80 is 1.0 in BF16.
void check_other_types(const nf::Codec& codec) {
  const nf::Slice slice{.count = 40};
  std::vector<std::uint16_t> values(slice.count, 0x3f80);
  std::vector<std::uint16_t> decoded(slice.count);
  Bytes wire(codec.encoded_size(slice, 1));
  const nf::ConstValues from(values.data(), values.size(), nf::DataType::kBfloat16);
  const nf::Values to(decoded.data(), decoded.size(), nf::DataType::kBfloat16);
  check(codec.encode(slice, {}, from, wire).ok() && codec.decode(slice, {}, wire, to).ok() &&
            decoded == values,
        "BF16 values decode to BF16 values");
}

// Prints ||sum - exact||^2 / ||exact||^2 of a chain of `ranks` and the bits per element of a
// message.
void print_cost(const nf::Codec& codec, std::uint32_t ranks) {
  constexpr std::size_t kCount = 100'000;
  const Link link{codec, {.count = kCount, .ranks = ranks}};
  std::vector<double> exact(kCount);
  Bytes wire;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Floats own = normal_values(kCount, rank);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += own[i];
    wire = rank == 0 ? link.encode({}, own)
                     : link.decode_add_encode({rank - 1, rank}, wire, own, rank);
  }
  const Floats sum = link.decode({ranks - 1, ranks}, wire);
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    error += (double{sum[i]} - exact[i]) * (double{sum[i]} - exact[i]);
    energy += exact[i] * exact[i];
  }
  std::printf("%s: sum of %2u ranks, %.2f bits per element, error %.1e\n",
              codec.spec().to_string().c_str(), ranks,
              8.0 * static_cast<double>(wire.size()) / kCount, error / energy);
}

}  // namespace

int main() {
  const std::vector<nf::CodecEntry> entries = all_codecs();
  const auto codec = nf::make_codec("block_int8", entries);
  if (!codec) {
    std::fprintf(stderr, "custom_codec: %s\n", nf::to_string(codec.status()).c_str());
    return 1;
  }
  for (const std::size_t count : {0u, 1u, 31u, 32u, 33u, 1000u, 10'007u})
    check_contract(**codec, count);
  check_other_types(**codec);
  for (const std::uint32_t ranks : {1u, 4u, 16u}) print_cost(**codec, ranks);
  return failures == 0 ? 0 : 1;
}
