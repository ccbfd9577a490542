#include "codec_forms.h"

#include <cstdint>
#include <cstring>

#include "check.h"
#include "support/spellings.h"

namespace nf::fuzz {
namespace {

std::vector<std::uint8_t> widths_of(const Codec& codec) {
  std::vector<std::uint8_t> widths;
  const std::vector<std::byte> statistics(codec.statistics_size(1));
  const float value = 0;
  for (std::uint8_t width = 0; width <= 16 && codec.width_count(1) > 0; ++width) {
    const Slice slice{.count = 1, .statistics = statistics, .widths = {&width, 1}};
    std::vector<std::byte> message(codec.encoded_size(slice, 1));
    if (codec.encode(slice, {}, {&value, 1, DataType::kFloat32}, message).ok()) {
      widths.push_back(width);
    }
  }
  return widths;
}

std::vector<Forms> make_all() {
  std::vector<Forms> all;
  for (const std::string& spelling : test::codec_spellings()) {
    Forms forms{spelling, {}, {}};
    const std::span<const Isa> isas = available_isas();
    for (auto isa = isas.rbegin(); isa != isas.rend(); ++isa) {
      set_isa(*isa);
      Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
      NF_FUZZ_CHECK(codec, "%s: %s", spelling.c_str(), to_string(codec.status()).c_str());
      forms.forms.push_back({*isa, std::move(*codec)});
    }
    forms.widths = widths_of(*forms.forms.front().codec);
    all.push_back(std::move(forms));
  }
  return all;
}

bool is_nan(const std::byte* at, DataType type) {
  if (type == DataType::kFloat32) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return (bits & 0x7fffffffu) > 0x7f800000u;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return (bits & 0x7fffu) > (type == DataType::kBfloat16 ? 0x7f80u : 0x7c00u);
}

}  // namespace

std::span<const Forms> all_forms() {
  static const std::vector<Forms> all = make_all();
  return all;
}

bool same_values(std::span<const std::byte> a, std::span<const std::byte> b, DataType type) {
  if (a.size() != b.size()) return false;
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return true;
  for (std::size_t i = 0; i < a.size(); i += size_of(type)) {
    const bool equal = std::memcmp(&a[i], &b[i], size_of(type)) == 0;
    if (!equal && !(is_nan(&a[i], type) && is_nan(&b[i], type))) return false;
  }
  return true;
}

}  // namespace nf::fuzz
