// A codec is thread-safe.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

constexpr int kThreads = 4;

class EveryCodecShared : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Registry, EveryCodecShared, testing::ValuesIn(codec_spellings()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryCodecShared, WritesTheSameBytesOnEveryThread) {
  Generator random(1);
  const std::size_t count = 10001;
  const std::vector<float> values = random.mixture(count);
  const std::vector<TypedValues> by_rank(2, TypedValues(DataType::kFloat32, values));
  const std::unique_ptr<Codec> codec = make_for(available_isas().front(), GetParam());
  const CodecContext context(*codec, by_rank);
  const Slice slice = context.whole();
  const Message expected = encode(*codec, slice, {0, 1}, by_rank[0].view());
  const Message expected_hop =
      decode_add_encode(*codec, slice, {0, 1}, expected, by_rank[1].view(), 1);
  const std::vector<float> expected_values = decode(*codec, slice, {0, 1}, expected);

  std::atomic<int> wrong = 0;
  const auto work = [&] {
    for (int round = 0; round < 3; ++round) {
      Buffer wire(expected.size());
      Buffer hop(expected_hop.size());
      std::vector<float> decoded(count);
      const auto message = wire.bytes();
      const auto sum = hop.bytes();
      bool good = codec->encode(slice, {0, 1}, ConstValues(values), message).ok();
      good = good && codec->decode(slice, {0, 1}, message, Values(decoded)).ok();
      good =
          good &&
          codec->decode_add_encode(slice, {0, 1}, message, ConstValues(values), {1, 2}, sum).ok();
      good = good && std::ranges::equal(message, expected) && std::ranges::equal(sum, expected_hop);
      good = good && std::ranges::equal(decoded, expected_values);
      if (!good) ++wrong;
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(MakeCodec, IsThreadSafe) {
  std::atomic<int> wrong = 0;
  const auto work = [&] {
    for (const CodecEntry& entry : builtin_codecs()) {
      if (!make_codec(entry.example)) ++wrong;
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nf::test
