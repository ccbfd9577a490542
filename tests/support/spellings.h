// The codecs that generic codec tests and fuzzers cover, from the library's table: a new entry is
// covered without a change here. Tests that need a property ask the codec for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "neuron_fabric/codec.h"

namespace nf::test {

// The example of every entry, variants of some, and every example with error feedback (`+ef`) if
// the codec supports it. If `filter` is given, only the codecs that it accepts.
std::vector<std::string> codec_spellings(const std::function<bool(const Codec&)>& filter = {});

// The routes with route memory: the codecs above that keep residuals, and powersgd.
std::vector<std::string> routes_with_memory();

}  // namespace nf::test
