// Every decoder on the bytes of a hostile peer: statistics, widths and message come from the input.
// No access is out of bounds, a decoder that fails leaves the output untouched, and all ISAs agree.
#include <string>

#include "check.h"
#include "codec_forms.h"
#include "input.h"

namespace nf::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kMaxValues = 700;
constexpr std::byte kFill{0xa5};

struct Case {
  Slice slice;
  Origin origin;
  Bytes wire;
  Origin other;  // another message, to merge with
  Bytes other_wire;
  DataType type = DataType::kFloat32;
};

struct Outcome {
  ErrorCode decoded = ErrorCode::kOk;
  ErrorCode hopped = ErrorCode::kOk;
  ErrorCode merged = ErrorCode::kOk;
  Bytes values;
  Bytes sum;
  Bytes hop;
  Bytes sum_of_both;
};

// Merges two messages. Only valid messages merge, and the result is valid.
void merge(const Codec& codec, const Case& c, Outcome& out) {
  Bytes values(c.slice.count * size_of(c.type));
  const Values to(values.data(), c.slice.count, c.type);
  const std::uint32_t contributions = c.origin.contributions + c.other.contributions;
  const bool is_valid = out.decoded == ErrorCode::kOk && contributions <= c.slice.ranks &&
                        codec.decode(c.slice, c.other, c.other_wire, to).ok();
  out.sum_of_both.assign(is_valid ? codec.encoded_size(c.slice, contributions) : 64, kFill);
  out.merged =
      codec.merge(c.slice, c.origin, c.wire, c.other, c.other_wire, 5, out.sum_of_both).code();
  if (out.merged != ErrorCode::kOk) {
    NF_FUZZ_CHECK(out.sum_of_both == Bytes(out.sum_of_both.size(), kFill),
                  "modified by a failed merge");
  }
  const bool merges = merges_messages(codec.kind());
  NF_FUZZ_CHECK((out.merged == ErrorCode::kOk) == (merges && is_valid), "merge: %d",
                static_cast<int>(out.merged));
  if (out.merged != ErrorCode::kOk) return;
  const Status status = codec.decode(c.slice, {5, contributions}, out.sum_of_both, to);
  NF_FUZZ_CHECK(status.ok(), "after a merge: %s", to_string(status).c_str());
}

Outcome run(const Codec& codec, const Case& c) {
  Outcome out;
  const std::size_t size = c.slice.count * size_of(c.type);
  out.values.assign(size, kFill);
  out.sum.assign(size, kFill);
  out.decoded =
      codec.decode(c.slice, c.origin, c.wire, Values(out.values.data(), c.slice.count, c.type))
          .code();
  const ErrorCode added =
      codec.decode_add(c.slice, c.origin, c.wire, Values(out.sum.data(), c.slice.count, c.type))
          .code();
  NF_FUZZ_CHECK(added == out.decoded, "decode_add disagrees with decode");
  if (out.decoded != ErrorCode::kOk) {
    NF_FUZZ_CHECK(out.values == Bytes(size, kFill), "modified by a failed decode");
    NF_FUZZ_CHECK(out.sum == Bytes(size, kFill), "modified by a failed decode_add");
  }
  // encoded_size() requires a valid message. The hop fails if all ranks have contributed already.
  out.hop.assign(
      out.decoded == ErrorCode::kOk ? codec.encoded_size(c.slice, c.origin.contributions + 1) : 64,
      kFill);
  const Bytes values(size, std::byte{0x3c});
  out.hopped = codec
                   .decode_add_encode(c.slice, c.origin, c.wire,
                                      ConstValues(values.data(), c.slice.count, c.type),
                                      {5, c.origin.contributions + 1}, out.hop)
                   .code();
  if (out.hopped != ErrorCode::kOk) {
    NF_FUZZ_CHECK(out.hop == Bytes(out.hop.size(), kFill),
                  "modified by a failed decode_add_encode");
  }
  merge(codec, c, out);
  return out;
}

void check(const Forms& forms, const Case& c) {
  const char* name = forms.spelling.c_str();
  const Outcome expected = run(*forms.forms.front().codec, c);
  for (const Form& form : forms.forms) {
    const Outcome actual = run(*form.codec, c);
    const std::string isa(to_string(form.isa));
    NF_FUZZ_CHECK(actual.decoded == expected.decoded, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(actual.hopped == expected.hopped, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(same_values(actual.values, expected.values, c.type), "%s on %s", name,
                  isa.c_str());
    NF_FUZZ_CHECK(same_values(actual.sum, expected.sum, c.type), "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(actual.hop == expected.hop, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(actual.merged == expected.merged, "%s on %s", name, isa.c_str());
    NF_FUZZ_CHECK(actual.sum_of_both == expected.sum_of_both, "%s on %s", name, isa.c_str());
  }
}

// Reads the fields of an input in this order. make_corpus.cc writes them.
void fuzz(Input input) {
  const auto codecs = all_forms();
  const Forms& forms = codecs[input.number<std::uint8_t>() % codecs.size()];
  const Codec& codec = *forms.forms.front().codec;
  const auto flags = input.number<std::uint8_t>();
  Case c;
  c.type = static_cast<DataType>(flags % 3);
  c.slice.count = input.number<std::uint16_t>() % (kMaxValues + 1);
  c.slice.first = input.number<std::uint8_t>() % 4 * codec.granule();
  c.slice.ranks = input.number<std::uint16_t>();
  c.origin.contributions = input.number<std::uint16_t>();
  c.origin.encoder = input.number<std::uint8_t>();
  const std::size_t end = static_cast<std::size_t>(c.slice.first) + c.slice.count;

  const Bytes statistics = input.bytes(codec.statistics_size(end));
  c.slice.statistics = statistics;
  std::vector<std::uint8_t> widths(codec.width_count(end));
  if ((flags & 0x80) != 0) {
    for (std::uint8_t& width : widths) width = input.number<std::uint8_t>();
  } else {
    const WidthRequest request{end, statistics, widths};
    NF_FUZZ_CHECK(codec.choose_widths({&request, 1}, {.ranks = 2}).ok(), "%s",
                  forms.spelling.c_str());
  }
  c.slice.widths = widths;

  // Most messages have the right size, since others are rejected early. encoded_size() requires
  // valid widths.
  const auto message_of = [&](Origin origin) {
    const bool known =
        (flags & 0x80) == 0 && origin.contributions > 0 && origin.contributions <= c.slice.ranks;
    const std::size_t size =
        known ? codec.encoded_size(c.slice, origin.contributions) : input.size();
    return input.bytes((flags & 0x40) != 0 ? size / 2 : size);
  };
  c.wire = message_of(c.origin);
  c.other.contributions = input.number<std::uint16_t>();
  c.other_wire = message_of(c.other);
  check(forms, c);
}

}  // namespace
}  // namespace nf::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nf::fuzz::fuzz(nf::fuzz::Input(data, size));
  return 0;
}
