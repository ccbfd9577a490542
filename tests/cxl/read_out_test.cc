#include "cxl/read_out.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cxl/counters.h"
#include "cxl/digits.h"
#include "neuron_fabric/codec.h"
#include "support/generator.h"

namespace nf::cxl {
namespace {

using nf::test::Generator;
using Message = std::vector<std::byte>;

constexpr std::size_t kCounts[] = {1,   31,  32,  33,  159, 160,  161,  319,  320,
                                   321, 511, 512, 513, 640, 5119, 5120, 5121, 12'345};

Message encoded(const Codec& codec, const Slice& slice, Generator& generator, std::uint32_t rank) {
  Message message(codec.encoded_size(slice, 1));
  const std::vector<float> values = generator.normal(slice.count);
  const Status status = codec.encode(slice, {.encoder = rank}, std::span(values), message);
  EXPECT_TRUE(status.ok()) << to_string(status);
  return message;
}

// Converts to lines and planes and back: the codes equal the codec's own, with partial lines too.
void expect_codes_of(Mode mode, std::size_t count, std::uint32_t workers) {
  Generator generator(11 + count + workers);
  const auto codec = make_codec(to_string(mode));
  ASSERT_TRUE(codec);
  const Slice slice{.count = count, .ranks = workers};
  const std::size_t lines = gradient_lines(mode, count);
  const unsigned planes = planes_of(mode, workers);
  std::vector<Line> counters(lines * planes);
  Message sum;
  for (std::uint32_t k = 0; k < workers; ++k) {
    const Message own = encoded(**codec, slice, generator, k);
    const auto digits = std::span(own).subspan(sign_codes_at(count));
    ASSERT_EQ(digits.size(), code_bytes(mode, count, 1));
    for (std::size_t line = 0; line < lines; ++line) {
      Digits decoded;
      ASSERT_TRUE(decode_digits(mode, gradient_line(mode, digits, line), decoded));
      ASSERT_EQ(add(decoded, std::span(counters).subspan(line * planes, planes)), Line{});
    }
    if (k == 0) {
      sum = own;
      continue;
    }
    Message merged((*codec)->encoded_size(slice, k + 1));
    ASSERT_TRUE((*codec)
                    ->merge(slice, {.encoder = 0, .contributions = k}, sum,
                            {.encoder = k, .contributions = 1}, own, 0, merged)
                    .ok());
    sum = std::move(merged);
  }
  Message codes(code_bytes(mode, count, workers), std::byte{0xee});
  for (std::size_t line = 0; line < lines; ++line) {
    put_codes(mode, workers, std::span(counters).subspan(line * planes, planes), line, count,
              codes);
  }
  const Message expected(sum.begin() + static_cast<long>(sign_codes_at(count)), sum.end());
  EXPECT_EQ(codes, expected) << to_string(mode) << ", " << count << " values, " << workers;
}

TEST(ReadOut, ReturnsTheCodesOfTheCodec) {
  for (const Mode mode : {Mode::kGBinary, Mode::kGTernary}) {
    for (const std::size_t count : kCounts) {
      for (const std::uint32_t workers : {1u, 2u, 3u, 4u, 7u, 8u, 15u, 16u, 32u, 63u, 64u}) {
        expect_codes_of(mode, count, workers);
      }
    }
  }
}

}  // namespace
}  // namespace nf::cxl
