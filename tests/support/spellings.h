// The codecs that generic codec tests and fuzzers cover: every entry of the library's table, and
// variants. A new entry is covered automatically.
#pragma once

#include <string>
#include <vector>

namespace nf::test {

// The example of every entry, and the variants.
std::vector<std::string> codec_spellings();

}  // namespace nf::test
