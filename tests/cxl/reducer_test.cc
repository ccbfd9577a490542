// The results of the reducer equal those of the codecs, for every number of workers and any order.
#include "cxl/reducer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "cxl/lines.h"
#include "cxl/read_out.h"
#include "neuron_fabric/codec.h"

namespace nf::cxl {
namespace {

using test::Generator;

// Chosen so that all worker counts together write more than a million lines.
constexpr std::uint32_t kMaxWorkers = 64;
constexpr std::uint32_t kLines = 481;
static_assert(kLines * (kMaxWorkers * (kMaxWorkers + 1) / 2) >= 1'000'000);

// The lines that each worker writes.
std::vector<std::vector<Line>> contributions(Generator& generator, Mode mode, std::uint32_t workers,
                                             std::uint32_t lines) {
  std::vector<std::vector<Line>> all(workers);
  for (auto& own : all) {
    for (std::uint32_t i = 0; i < lines; ++i) own.push_back(test::random_line(generator, mode));
  }
  return all;
}

void write_all(Reducer& reducer, Generator& generator, const RegionConfig& config,
               const std::vector<std::vector<Line>>& written) {
  const auto workers = static_cast<std::uint32_t>(config.workers);
  const auto lines = static_cast<std::uint32_t>(config.length);
  std::uint64_t completed = 0;
  for (const auto& [worker, line] : test::shuffled(generator, workers, lines)) {
    const Answer answer =
        reducer.handle(test::write_of(config, worker, line, written[worker][line]));
    ASSERT_EQ(answer.fault, Fault::kOk);
    completed += answer.complete ? 1 : 0;
  }
  ASSERT_EQ(completed, lines);
}

using Message = std::vector<std::byte>;

Message message_of(std::size_t count, std::span<const Line> digits) {
  Message message(sign_codes_at(count));
  for (const Line& line : digits) {
    message.insert(message.end(), bytes_of(line).begin(), bytes_of(line).end());
  }
  return message;
}

// The codec's sum of all workers' messages.
Message merged(const Codec& codec, const Slice& slice,
               const std::vector<std::vector<Line>>& written) {
  Message sum = message_of(slice.count, written[0]);
  for (std::uint32_t k = 1; k < written.size(); ++k) {
    Message out(codec.encoded_size(slice, k + 1));
    const Status status = codec.merge(slice, {.encoder = 0, .contributions = k}, sum,
                                      {.encoder = k, .contributions = 1},
                                      message_of(slice.count, written[k]), 0, out);
    EXPECT_TRUE(status.ok()) << to_string(status);
    sum = std::move(out);
  }
  return sum;
}

Message read_sum(Reducer& reducer, const RegionConfig& config, std::size_t count) {
  const auto mode = static_cast<Mode>(config.mode);
  const auto workers = static_cast<std::uint32_t>(config.workers);
  Message codes(code_bytes(mode, count, workers));
  for (std::uint64_t line = 0; line < config.length; ++line) {
    std::vector<Line> planes;
    for (unsigned k = 0; k < planes_of(mode, workers); ++k) {
      const Answer answer = reducer.handle(test::read_of(config, workers + k, line));
      EXPECT_EQ(answer.fault, Fault::kOk);
      planes.push_back(answer.data);
    }
    put_codes(mode, workers, planes, line, count, codes);
  }
  return codes;
}

class SignModes : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Cxl, SignModes, testing::Values(Mode::kGBinary, Mode::kGTernary),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(SignModes, CountLikeTheCodecForOneTo64Workers) {
  const Mode mode = GetParam();
  const auto codec = make_codec(to_string(mode));
  ASSERT_TRUE(codec);
  Generator generator(4);
  const std::size_t count = std::size_t{kLines} * elements_of(mode);
  for (std::uint32_t workers = 1; workers <= kMaxWorkers; ++workers) {
    Reducer reducer;
    const RegionConfig config = test::config_of(mode, workers, kLines);
    ASSERT_EQ(reducer.enable(0, config), Fault::kOk);
    const auto written = contributions(generator, mode, workers, kLines);
    ASSERT_NO_FATAL_FAILURE(write_all(reducer, generator, config, written));
    Message expected = merged(**codec, {.count = count, .ranks = workers}, written);
    expected.erase(expected.begin(), expected.begin() + static_cast<long>(sign_codes_at(count)));
    ASSERT_EQ(read_sum(reducer, config, count), expected) << workers << " workers";
  }
}

TEST(Reducer, ClosedGatesAddNothing) {
  const std::uint32_t workers = 64;
  Reducer reducer;
  const RegionConfig config = test::config_of(Mode::kGTernary, workers, 1);
  ASSERT_EQ(reducer.enable(0, config), Fault::kOk);
  // One worker has all gates open with positive signs, 63 have all gates closed: S is 1 everywhere.
  const std::vector<std::byte> closed(kLineBytes, std::byte{121});
  const std::vector<std::byte> plus(kLineBytes, std::byte{242});
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    const Line line = line_of(worker == 17 ? plus : closed);
    ASSERT_EQ(reducer.handle(test::write_of(config, worker, 0, line)).fault, Fault::kOk);
  }
  // S + 64 is 65: planes 0 and 6, in 320 lanes.
  Line lanes;
  std::fill_n(lanes.words.begin(), 5, ~std::uint64_t{0});
  for (unsigned k = 0; k < 8; ++k) {
    EXPECT_EQ(reducer.handle(test::read_of(config, workers + k, 0)).data,
              k == 0 || k == 6 ? lanes : Line{})
        << k;
  }
}

TEST(Reducer, IdentityReturnsEveryByte) {
  Generator generator(5);
  const std::uint32_t workers = 16;
  const std::uint32_t lines = 62'500;  // a million in total
  Reducer reducer;
  const RegionConfig config = test::config_of(Mode::kIdentity, workers, lines);
  ASSERT_EQ(reducer.enable(0, config), Fault::kOk);
  const auto written = contributions(generator, Mode::kIdentity, workers, lines);
  ASSERT_NO_FATAL_FAILURE(write_all(reducer, generator, config, written));
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    for (std::uint32_t line = 0; line < lines; ++line) {
      const Answer answer = reducer.handle(test::read_of(config, worker, line));
      ASSERT_EQ(answer.fault, Fault::kOk);
      ASSERT_EQ(answer.data, written[worker][line]);
    }
  }
}

using Values = std::array<float, 16>;

TEST(Reducer, AddsFp32InWorkerOrderForAnyOrderOfArrival) {
  Generator generator(6);
  for (std::uint32_t workers = 1; workers <= kMaxWorkers; ++workers) {
    const std::uint32_t lines = kLines;
    Reducer reducer;
    const RegionConfig config = test::config_of(Mode::kFp32, workers, lines);
    ASSERT_EQ(reducer.enable(0, config), Fault::kOk);
    const auto written = contributions(generator, Mode::kFp32, workers, lines);
    ASSERT_NO_FATAL_FAILURE(write_all(reducer, generator, config, written));
    for (std::uint32_t line = 0; line < lines; ++line) {
      Values sum = std::bit_cast<Values>(written[0][line]);
      for (std::uint32_t k = 1; k < workers; ++k) {
        const Values next = std::bit_cast<Values>(written[k][line]);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + next[i];
      }
      const Answer answer = reducer.handle(test::read_of(config, workers, line));
      ASSERT_EQ(answer.fault, Fault::kOk);
      ASSERT_EQ(answer.data, std::bit_cast<Line>(sum)) << workers << " workers, line " << line;
    }
  }
}

TEST(Reducer, AddsSpecialFp32ValuesAsDocumented) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kDenormMin = std::numeric_limits<float>::denorm_min();
  constexpr float kMax = std::numeric_limits<float>::max();
  const auto payload_nan = std::bit_cast<float>(0xffc0'1234u);
  const Values a{-0.0f, 0.0f, kInfinity, kInfinity, payload_nan, kDenormMin, kMax, 1};
  const Values b{-0.0f, -0.0f, 1.0f, -kInfinity, 1.0f, kDenormMin, kMax, 0x1p-25f};
  const Line lines[] = {std::bit_cast<Line>(a), std::bit_cast<Line>(b)};
  const Values sum = std::bit_cast<Values>(fold_fp32(lines));
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  EXPECT_EQ(bits(sum[0]), bits(-0.0f));
  EXPECT_EQ(bits(sum[1]), bits(0.0f));
  EXPECT_EQ(sum[2], kInfinity);
  EXPECT_EQ(bits(sum[3]), 0x7fc0'0000u);
  EXPECT_EQ(bits(sum[4]), 0x7fc0'0000u);
  EXPECT_EQ(sum[5], 2 * kDenormMin);
  EXPECT_EQ(sum[6], kInfinity);
  EXPECT_EQ(sum[7], 1.0f);
  EXPECT_EQ(fold_fp32(std::span(lines).first(1)), lines[0]);  // one worker: its own bytes
}

TEST(Reducer, StartsFromZeroWithEveryGeneration) {
  Generator generator(7);
  for (const Mode mode : kModes) {
    Reducer reducer;
    const RegionConfig config = test::config_of(mode, 3, 5);
    ASSERT_EQ(reducer.enable(0, config), Fault::kOk);
    std::vector<Line> results;
    for (int round = 0; round < 3; ++round) {
      Generator same(8);
      const auto written = contributions(same, mode, 3, 5);
      ASSERT_NO_FATAL_FAILURE(write_all(reducer, generator, config, written));
      const std::uint64_t window = mode == Mode::kIdentity ? 2 : 3;
      results.push_back(reducer.handle(test::read_of(config, window, 4)).data);
      EXPECT_EQ(results.back(), results.front());
      ASSERT_EQ(reducer.control(0, Control::kClear), Fault::kOk);
      EXPECT_EQ(reducer.handle(test::read_of(config, window, 4)).fault, Fault::kNotComplete);
    }
    EXPECT_NE(results.front(), Line{});
  }
}

TEST(Reducer, KeepsRegionsSeparate) {
  Generator generator(9);
  Reducer reducer;
  RegionConfig first = test::config_of(Mode::kGBinary, 4, 10);
  RegionConfig second = test::config_of(Mode::kFp32, 2, 10);
  second.base = first.base + ((first.workers + 3) << first.stride);
  second.store = 10;
  ASSERT_EQ(reducer.enable(0, first), Fault::kOk);
  ASSERT_EQ(reducer.enable(2, second), Fault::kOk);
  const auto signs = contributions(generator, Mode::kGBinary, 4, 10);
  const auto values = contributions(generator, Mode::kFp32, 2, 10);
  ASSERT_NO_FATAL_FAILURE(write_all(reducer, generator, first, signs));
  EXPECT_EQ(reducer.registers().region(2).completed, 0u);
  ASSERT_NO_FATAL_FAILURE(write_all(reducer, generator, second, values));
  EXPECT_EQ(reducer.registers().region(0).completed, 10u);
  EXPECT_EQ(reducer.handle(test::read_of(second, 2, 3)).data,
            fold_fp32(std::vector{values[0][3], values[1][3]}));
}

}  // namespace
}  // namespace nf::cxl
