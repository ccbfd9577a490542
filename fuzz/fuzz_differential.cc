// Every codec on arbitrary bit patterns: all ISAs write the same bytes as the scalar form and
// decode to the same bits. If the codec can merge messages, a hop equals a merge.
#include <string>
#include <utility>

#include "check.h"
#include "codec_forms.h"
#include "input.h"

namespace nf::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kMaxValues = 600;

struct Case {
  DataType type = DataType::kFloat32;
  std::size_t count = 0;
  std::uint32_t ranks = 2;
  std::uint32_t encoder = 0;
  Bytes first;  // the values of two ranks
  Bytes second;
  std::vector<std::uint8_t> widths;  // if empty, choose_widths() sets them

  ConstValues values(const Bytes& bytes) const { return {bytes.data(), count, type}; }
};

struct Outcome {
  Bytes statistics;  // of the first rank
  Bytes combined;
  Bytes message;
  Bytes hop;
  Bytes merged;  // empty if messages do not merge
  Bytes decoded;
  Bytes added;
  Bytes sum;
};

void must(const Status& status, const Codec& codec) {
  NF_FUZZ_CHECK(status.ok(), "%s: %s", codec.spec().to_string().c_str(), to_string(status).c_str());
}

Outcome run(const Codec& codec, Case& c) {
  Outcome out;
  out.statistics.resize(codec.statistics_size(c.count));
  out.combined.resize(out.statistics.size());
  Bytes other(out.statistics.size());
  must(codec.statistics(c.values(c.first), out.statistics), codec);
  must(codec.statistics(c.values(c.second), other), codec);
  const std::span<const std::byte> by_rank[] = {out.statistics, other};
  must(codec.combine_statistics(c.count, by_rank, out.combined), codec);
  if (c.widths.empty()) {
    c.widths.resize(codec.width_count(c.count));
    const WidthRequest request{c.count, out.combined, c.widths};
    must(codec.choose_widths({&request, 1}, {.ranks = 2}), codec);
  }

  const Slice slice{.seed = 1,
                    .step = 2,
                    .parameter = 3,
                    .count = c.count,
                    .ranks = c.ranks,
                    .statistics = out.combined,
                    .widths = c.widths};
  const Origin one{.encoder = c.encoder, .contributions = 1};
  const Origin two{.encoder = c.encoder + 1, .contributions = 2};
  out.message.resize(codec.encoded_size(slice, 1));
  out.hop.resize(codec.encoded_size(slice, 2));
  out.decoded.resize(c.first.size());
  out.sum.resize(c.first.size());
  out.added = c.second;
  const auto to = [&](Bytes& bytes) { return Values(bytes.data(), c.count, c.type); };
  must(codec.encode(slice, one, c.values(c.first), out.message), codec);
  must(codec.decode(slice, one, out.message, to(out.decoded)), codec);
  must(codec.decode_add(slice, one, out.message, to(out.added)), codec);
  must(codec.decode_add_encode(slice, one, out.message, c.values(c.second), two, out.hop), codec);
  must(codec.decode(slice, two, out.hop, to(out.sum)), codec);
  if (!merges_messages(codec.kind())) return out;
  const Origin other_one{.encoder = two.encoder, .contributions = 1};
  Bytes other_message(out.message.size());
  out.merged.resize(out.hop.size());
  must(codec.encode(slice, other_one, c.values(c.second), other_message), codec);
  must(codec.merge(slice, one, out.message, other_one, other_message, two.encoder, out.merged),
       codec);
  NF_FUZZ_CHECK(out.merged == out.hop, "%s: a hop differs from a merge",
                codec.spec().to_string().c_str());
  if (codec.kind() == CodecKind::kCounting) {
    Bytes swapped(out.merged.size());
    must(codec.merge(slice, other_one, other_message, one, out.message, c.encoder, swapped), codec);
    NF_FUZZ_CHECK(swapped == out.merged, "%s: the result depends on the order of a merge",
                  codec.spec().to_string().c_str());
  }
  return out;
}

void check(const Forms& forms, Case c) {
  const char* name = forms.spelling.c_str();
  const Outcome expected = run(*forms.forms.front().codec, c);
  for (const Form& form : std::span(forms.forms).subspan(1)) {
    const Outcome actual = run(*form.codec, c);
    const std::string isa(to_string(form.isa));
    const auto same = [&](const Bytes& a, const Bytes& b) { return same_values(a, b, c.type); };
    NF_FUZZ_CHECK(actual.statistics == expected.statistics, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(actual.combined == expected.combined, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(actual.message == expected.message, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(same(actual.decoded, expected.decoded), "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(same(actual.added, expected.added), "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(actual.hop == expected.hop, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(actual.merged == expected.merged, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(same(actual.sum, expected.sum), "%s on %s", name, isa.c_str());
  }
}

// `given` from `start`, repeated up to `size` bytes.
Bytes repeated(const Bytes& given, std::size_t start, std::size_t size) {
  Bytes out(size);
  for (std::size_t at = 0; at < size;) {
    const std::size_t run = std::min(size - at, given.size() - start);
    std::memcpy(out.data() + at, given.data() + start, run);
    at += run;
    start = 0;
  }
  return out;
}

// Repeats the values of the input, so that short inputs fill whole blocks.
void fuzz(Input input) {
  const auto codecs = all_forms();
  const Forms& forms = codecs[input.number<std::uint8_t>() % codecs.size()];
  Case c;
  const auto flags = input.number<std::uint8_t>();
  c.type = static_cast<DataType>(flags % 3);
  c.ranks = (flags & 0x40) != 0 ? 3 : 2;  // the sum of two ranks is final, or not
  c.count = input.number<std::uint16_t>() % (kMaxValues + 1);
  c.encoder = input.number<std::uint8_t>();
  const std::size_t skew = input.number<std::uint8_t>();
  const std::size_t size = c.count * size_of(c.type);
  if ((flags & 0x80) == 0 && !forms.widths.empty()) {
    c.widths.resize(forms.forms.front().codec->width_count(c.count));
    for (std::uint8_t& width : c.widths) {
      width = forms.widths[input.number<std::uint8_t>() % forms.widths.size()];
    }
  }
  const Bytes given = input.bytes(std::max<std::size_t>(input.size(), 1));
  c.first = repeated(given, 0, size);
  c.second = repeated(given, skew * size_of(c.type) % given.size(), size);
  check(forms, std::move(c));
}

}  // namespace
}  // namespace nf::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nf::fuzz::fuzz(nf::fuzz::Input(data, size));
  return 0;
}
