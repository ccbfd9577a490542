#include "support/spellings.h"

#include <algorithm>
#include <string_view>

namespace nf::test {

std::vector<std::string> codec_spellings(const std::function<bool(const Codec&)>& filter) {
  static constexpr std::string_view kVariants[] = {
      "waterfill:2.5",         "waterfill:8",
      "waterfill:4+alpha=0",   "waterfill:4+alpha=1",
      "waterfill+width=2",     "waterfill+width=3",
      "waterfill+width=4",     "waterfill+width=5",
      "waterfill+width=6",     "waterfill+width=7",
      "waterfill+width=8",     "waterfill+width=9",
      "waterfill+width=10",    "dynamiq+width=2",
      "dynamiq+width=4",       "dynamiq+width=8",
      "dynamiq:5+uniform",     "g_binary+majority",
      "thc+saturate=4",        "thc+block=64+saturate=5",
      "topkc:2+block=32",      "omnireduce:4+block=64",
      "waterfill:2+ef",        "g_ternary+ef",
      "dynamiq:5+independent", "dynamiq+independent+width=4",
      "rotated:1.25",          "rotated:8",
      "rotated:3+alpha=0",     "rotated:4+alpha=1",
      "rotated+width=2",       "rotated+width=3",
      "rotated+width=4",       "rotated+width=5",
      "rotated+width=6",       "rotated+width=7",
      "rotated+width=8",       "rotated:1+ef",
  };
  std::vector<std::string> spellings;
  for (const CodecEntry& entry : builtin_codecs()) spellings.emplace_back(entry.example);
  for (const std::string_view variant : kVariants) spellings.emplace_back(variant);
  // At the end: inputs of the fuzz corpus select a codec by its index.
  for (const CodecEntry& entry : builtin_codecs()) {
    const std::string with_feedback = std::string(entry.example) + "+ef";
    if (make_codec(with_feedback) && std::ranges::count(spellings, with_feedback) == 0) {
      spellings.push_back(with_feedback);
    }
  }
  if (filter) {
    std::erase_if(spellings, [&](const std::string& spelling) {
      const auto codec = make_codec(spelling);
      return codec && !filter(**codec);  // a codec that cannot be made fails in its own tests
    });
  }
  return spellings;
}

std::vector<std::string> routes_with_memory() {
  std::vector<std::string> routes =
      codec_spellings([](const Codec& codec) { return codec.keeps_residual(); });
  routes.emplace_back("powersgd:2");
  routes.emplace_back("waterfill:3+rms");
  routes.emplace_back("rotated:2+rms");
  return routes;
}

}  // namespace nf::test
