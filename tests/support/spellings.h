// The codecs that tests and fuzzers of all codecs run over: the table of the library and variants
// of its entries, so that a new line of the table is tested without a line here.
#pragma once

#include <string>
#include <vector>

namespace nf::test {

// The example of every entry, and the variants.
std::vector<std::string> codec_spellings();

}  // namespace nf::test
