// The bytes of every codec for one small input are recorded in tests/golden/<name>.txt, so that a
// change of the wire format shows up as a changed file. NF_UPDATE_GOLDEN=1 rewrites the files.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"

namespace nf::test {
namespace {

constexpr std::size_t kCount = 300;

// Uses integers and powers of two only, so that the values do not depend on the maths library.
std::vector<float> values_of(std::uint32_t rank) {
  std::vector<float> values(kCount);
  std::uint32_t state = 12345 + rank;
  for (std::size_t i = 0; i < kCount; ++i) {
    state = state * 1664525u + 1013904223u;
    const auto mantissa = static_cast<std::int32_t>(state >> 16) - 0x8000;
    const float scale = i < 256 ? 0x1p-15f : 0x1p-19f;
    values[i] = i % 29 == 0 ? 0.0f : scale * static_cast<float>(mantissa);
  }
  return values;
}

// Prints 32 bytes or 8 floats per line.
template <typename Number>
void print(std::ostream& out, std::string_view title, std::span<const Number> numbers) {
  out << title << ':';
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::uint32_t bits = 0;
    if constexpr (sizeof(Number) == 1) {
      bits = static_cast<std::uint32_t>(numbers[i]);
    } else {
      bits = std::bit_cast<std::uint32_t>(numbers[i]);
    }
    const std::size_t line = sizeof(Number) == 1 ? 32 : 8;
    out << (i % line == 0 ? "\n  " : " ") << std::setw(2 * sizeof(Number)) << bits;
  }
  out << "\n\n";
}

std::string golden_of(const Codec& codec) {
  std::vector<TypedValues> by_rank;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    by_rank.emplace_back(DataType::kFloat32, values_of(rank));
  }
  const CodecContext context(codec, by_rank);
  const Slice slice = context.whole();
  const Message message = encode(codec, slice, {0, 1}, by_rank[0].view());
  const Message sum = decode_add_encode(codec, slice, {0, 1}, message, by_rank[1].view(), 1);
  std::ostringstream out;
  out << "# The output of " << codec.spec().to_string()
      << " for 300 values on each of two ranks, in hexadecimal"
      << " (tests/codec/golden_test.cc).\n\n"
      << std::hex << std::setfill('0');
  print(out, "combined statistics", context.statistics());
  print(out, "widths", context.widths());
  print(out, "message of rank 0", std::span<const std::byte>(message));
  print(out, "message after rank 1", std::span<const std::byte>(sum));
  const std::vector<float> decoded = decode(codec, slice, {1, 2}, sum);
  print(out, "decoded sum, bits of FP32", std::span<const float>(decoded));
  return out.str();
}

class EveryGoldenFile : public testing::TestWithParam<CodecCase> {
 protected:
  static std::string path() {
    const std::string& spelling = GetParam().spelling;
    return std::string(NF_GOLDEN_DIR) + "/" + spelling.substr(0, spelling.find_first_of(":+")) +
           ".txt";
  }
};

std::vector<CodecCase> golden_cases() {
  std::vector<CodecCase> cases;
  for (const CodecEntry& entry : builtin_codecs()) {
    for (const Isa isa : available_isas()) cases.push_back({std::string(entry.example), isa});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryGoldenFile, testing::ValuesIn(golden_cases()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryGoldenFile, ContainsTheBytesOfItsCodec) {
  const std::string actual = golden_of(*GetParam().make());
  if (std::getenv("NF_UPDATE_GOLDEN") != nullptr) {
    if (GetParam().isa == Isa::kScalar) std::ofstream(path()) << actual;
    GTEST_SKIP() << "rewrote " << path();
  }
  std::ifstream file(path());
  ASSERT_TRUE(file) << path() << " is missing: run with NF_UPDATE_GOLDEN=1 and check the file";
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(actual, expected.str()) << path();
}

}  // namespace
}  // namespace nf::test
