#include "support/codec_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>

namespace nf::test {

std::unique_ptr<Codec> make_for(Isa isa, std::string_view spelling) {
  set_isa(isa);
  Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
  if (!codec) {
    ADD_FAILURE() << to_string(codec.status());
    return nullptr;
  }
  return std::move(*codec);
}

std::vector<CodecCase> codec_cases(const std::function<bool(const Codec&)>& filter) {
  std::vector<CodecCase> cases;
  for (const std::string& spelling : codec_spellings(filter)) {
    for (const Isa isa : available_isas()) cases.push_back({spelling, isa});
  }
  return cases;
}

std::string test_name(std::string_view spelling) {
  std::string name;
  for (const char c : spelling) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (c == '.') {
      name += 'p';
    } else if (c != '=') {
      name += '_';
    }
  }
  return name;
}

std::string test_name(const CodecCase& codec_case) {
  return test_name(codec_case.spelling) + "_" + std::string(to_string(codec_case.isa));
}

void PrintTo(const CodecCase& codec_case, std::ostream* out) {
  *out << codec_case.spelling << " on " << to_string(codec_case.isa);
}

}  // namespace nf::test
