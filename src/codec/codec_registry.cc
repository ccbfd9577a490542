// The table of codecs. Listings, contract tests, fuzzers and benchmarks iterate over it.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "codec/make_codecs.h"

namespace nf {
namespace {

constexpr std::array kCodecs{
    CodecEntry{"fp32", "fp32", "32 bits, exact", make_fp32},
    CodecEntry{"bf16", "bf16", "16 bits, the baseline to beat", make_bf16},
    CodecEntry{"fp16", "fp16", "16 bits, narrow range", make_fp16},
    CodecEntry{"g_binary", "g_binary", "1 bit, signs that add by counting", make_g_binary},
    CodecEntry{"g_ternary", "g_ternary", "1.6 bits, signs of the larger values, added by counting",
               make_g_ternary},
    CodecEntry{"waterfill", "waterfill:4", "2.5 to 8 bits, subtractive dither, the default",
               make_waterfill},
    CodecEntry{"dynamiq", "dynamiq:5", "3 to 8 bits, the published scheme to beat", make_dynamiq},
    CodecEntry{"mxfp8", "mxfp8", "8.25 bits, OCP E4M3 under a scale all ranks share", make_mxfp8},
    CodecEntry{"mxfp6", "mxfp6", "6.25 bits, OCP E3M2", make_mxfp6},
    CodecEntry{"mxfp4", "mxfp4", "4.25 bits, OCP E2M1, may saturate", make_mxfp4},
    CodecEntry{"thc", "thc", "4 bits in, 7 for a sum of 8, rotated, codes add exactly", make_thc},
    CodecEntry{"topkc", "topkc:8", "1 to 16 bits, the blocks with the largest norm, in BF16",
               make_topkc},
    CodecEntry{"omnireduce", "omnireduce:8",
               "1 to 16 bits, the largest blocks of any rank, in BF16", make_omnireduce},
    CodecEntry{"marsit", "marsit", "1 bit for any sum, signs that merge at random", make_marsit},
    CodecEntry{"rotated", "rotated:3", "1.25 to 8 bits, rotated, smaller errors below 5 bits",
               make_rotated},
};

}  // namespace

std::span<const CodecEntry> builtin_codecs() { return kCodecs; }

Expected<std::unique_ptr<Codec>> make_codec(std::string_view text,
                                            std::span<const CodecEntry> entries) {
  const Expected<CodecSpec> spec = CodecSpec::parse(text);
  if (!spec) return spec.status();
  std::vector<std::string_view> names;
  for (const CodecEntry& entry : entries) {
    if (entry.name == spec->name) return entry.make(*spec);
    names.push_back(entry.name);
  }
  const std::string_view hint = nearest(spec->name, names);
  return Status(ErrorCode::kBadConfig,
                fmt::format("codec '{}' is unknown; {}", spec->name,
                            hint.empty() ? "`nf info` lists the codecs"
                                         : fmt::format("did you mean '{}'?", hint)));
}

}  // namespace nf
