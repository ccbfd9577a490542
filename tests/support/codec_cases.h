// Every codec on every ISA, as test parameters.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/isa.h"
#include "neuron_fabric/codec.h"
#include "support/spellings.h"

namespace nf::test {

// The implementation of a codec for one ISA. Sets the global ISA: not thread-safe.
std::unique_ptr<Codec> make_for(Isa isa, std::string_view spelling);

struct CodecCase {
  std::string spelling;
  Isa isa;

  std::unique_ptr<Codec> make() const { return make_for(isa, spelling); }
};

// Every spelling on every ISA of this CPU. If `filter` is given, only codecs that it accepts.
std::vector<CodecCase> codec_cases(const std::function<bool(const Codec&)>& filter = {});

// Part of a test's name: waterfill_2p5_avx512.
std::string test_name(std::string_view spelling);
std::string test_name(const CodecCase& codec_case);
void PrintTo(const CodecCase& codec_case, std::ostream* out);  // NOLINT: gtest's name

// Sizes around every block size in use, and a large prime.
inline constexpr std::size_t kCounts[] = {0,   1,   31,   32,   33,   159,  160,  161,  255,
                                          256, 257, 1023, 1024, 1025, 5119, 5120, 5121, 100003};
// A subset for tests that loop over more than sizes.
inline constexpr std::size_t kFewCounts[] = {0, 1, 33, 257, 1025, 5121};

}  // namespace nf::test
