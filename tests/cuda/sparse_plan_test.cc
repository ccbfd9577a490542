// The device chooses the same blocks, tiles and offsets of a sparse codec as the CPU, for any keys:
// many equal ones, so that not all blocks at the level fit, and many short last blocks.
#include "cuda/codec/sparse_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/collective/device_plan.h"
#include "cuda/device_test.h"
#include "support/codec_cases.h"
#include "support/generator.h"

namespace nf::test {
namespace {

constexpr std::uint32_t kChunks = 3;
constexpr std::size_t kTileBytes = 1500;

template <typename T>
std::vector<T> from_device(const T* items, std::size_t count) {
  std::vector<T> copy(count);
  expect_cuda(cudaMemcpy(copy.data(), items, count * sizeof(T), cudaMemcpyDeviceToHost));
  return copy;
}

// The distribution of keys.
enum class Keys { kAny, kFew, kOne };

// Keys of one parameter.
Bytes keys_of(Generator& random, const SparseFormat& format, std::size_t size, Keys which) {
  const std::uint64_t max = (std::uint64_t{1} << (8 * format.key_bytes)) - 1;
  const std::uint64_t few[] = {0, 1, 7, 8, format.poison - 1, format.poison, max};
  Bytes keys;
  while (keys.size() < size) {
    std::uint64_t key = 7;
    if (which == Keys::kFew) key = few[random.below(std::size(few))];
    if (which == Keys::kAny) key = random.below(max + 1);
    for (std::size_t b = 0; b < format.key_bytes; ++b) {
      keys.push_back(static_cast<std::byte>(key >> (8 * b)));
    }
  }
  return keys;
}

void expect_same_plan(const std::string& spelling, std::span<const std::size_t> counts,
                      std::uint64_t seed, Keys which) {
  SCOPED_TRACE(spelling + ", seed " + std::to_string(seed));
  const auto codec = make_codec(spelling);
  ASSERT_TRUE(codec) << to_string(codec.status());
  const SparseFormat format = dynamic_cast<const SparseCodec&>(**codec).format();
  Generator random(seed);
  std::vector<Bytes> keys;
  Bytes all_keys;
  std::vector<Gradient> gradients;
  std::vector<Piece> domain;
  const DeviceCopy values(Bytes(4096));  // not read
  for (const std::size_t count : counts) {
    keys.push_back(keys_of(random, format, (*codec)->statistics_size(count), which));
    all_keys.insert(all_keys.end(), keys.back().begin(), keys.back().end());
    domain.push_back({.parameter = domain.size(), .count = count});
    gradients.push_back(
        {.parameter = 1, .values = {values.as<float>(), count, DataType::kFloat32}});
  }
  const SumOrder order{.ranks = kChunks};
  const std::uint32_t contributions[] = {1};

  SumPlan expected(**codec, order);
  const std::vector<std::span<const std::byte>> statistics(keys.begin(), keys.end());
  expect_ok(expected.make(domain, counts, statistics, kChunks, kTileBytes), "CPU plan");

  const auto plan = cuda::DevicePlan::create({.codec = **codec,
                                              .order = order,
                                              .gradients = gradients,
                                              .chunks = kChunks,
                                              .tile_bytes = kTileBytes,
                                              .contributions = contributions},
                                             cuda::pool_allocator(), nullptr);
  ASSERT_TRUE(plan) << to_string(plan.status());
  ASSERT_EQ((*plan)->statistics_size(), all_keys.size());
  expect_cuda(
      cudaMemcpy((*plan)->statistics(), all_keys.data(), all_keys.size(), cudaMemcpyHostToDevice));
  expect_ok((*plan)->make(nullptr), "device plan");

  std::vector<std::uint32_t> first_block;  // by parameter
  std::uint32_t blocks = 0;
  for (const std::size_t count : counts) {
    first_block.push_back(blocks);
    blocks += static_cast<std::uint32_t>((*codec)->width_count(count));
  }
  const auto* offsets_at = (*plan)->message<const std::byte>(0, 0, {0, 1}, nullptr).offsets;
  const auto offsets = from_device(offsets_at, blocks);
  const std::uint32_t tiles = expected.tiles().tiles_per_chunk();
  const auto bounds = from_device((*plan)->batch(0, 0).bounds, std::size_t{kChunks} * tiles);
  std::uint32_t next = 0;  // block
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      const std::uint32_t start = next;
      std::size_t at = 0;
      for (const Piece& piece : expected.tiles().pieces(chunk, tile)) {
        const Slice slice{.first = piece.first,
                          .count = piece.count,
                          .widths = expected.widths(1, piece.parameter)};
        ASSERT_EQ(next, first_block[piece.parameter] + piece.first / format.block);
        for (const cuda::SuperGroupOffsets& block : cuda::block_offsets(**codec, slice, at)) {
          ASSERT_EQ(offsets[next].width, block.width) << "block " << next;
          ASSERT_EQ(offsets[next].codes, block.codes) << "block " << next;
          ++next;
        }
        at += (*codec)->encoded_size(slice, 1);
      }
      EXPECT_LE(at, (*plan)->message_size(chunk, tile, 1));
      const cuda::BatchBounds& own = bounds[std::size_t{chunk} * tiles + tile];
      ASSERT_EQ(own.blocks, next - start) << "tile " << tile << " of chunk " << chunk;
      if (own.blocks == 0) continue;
      ASSERT_EQ(own.first_block, start);
    }
  }
  EXPECT_EQ(next, blocks);
}

class SparsePlan : public OnDevice<testing::TestWithParam<const char*>> {};

INSTANTIATE_TEST_SUITE_P(Codecs, SparsePlan,
                         testing::Values("topkc:8", "topkc:8.25", "topkc:2", "topkc:1+block=1024",
                                         "topkc:16+block=32", "omnireduce:8", "omnireduce:2",
                                         "omnireduce:4+block=32"),
                         [](const auto& test) { return test_name(test.param); });

TEST_P(SparsePlan, MatchesTheCpu) {
  const std::size_t counts[] = {70'000, 256, 4, 5'121, 0, 40'000, 777};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    expect_same_plan(GetParam(), counts, seed, seed % 2 == 0 ? Keys::kFew : Keys::kAny);
  }
}

// Bytes that are too few for a whole block go to the last blocks of parameters.
TEST_P(SparsePlan, MatchesTheCpuForManyShortParameters) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Generator random(seed);
    std::vector<std::size_t> counts;
    for (int p = 0; p < 600; ++p) counts.push_back(random.below(300));
    expect_same_plan(GetParam(), counts, seed, Keys::kFew);
  }
}

// Many spans; with blocks of 32, more than one pass of the scan over spans.
TEST_P(SparsePlan, MatchesTheCpuForManyBlocks) {
  const std::size_t counts[] = {36'000'000, 17, 500'000, 999};
  expect_same_plan(GetParam(), counts, 1, Keys::kFew);
  expect_same_plan(GetParam(), counts, 2, Keys::kAny);
}

// The first blocks are sent; with topkc:8.25 exactly half of them fit.
TEST_P(SparsePlan, MatchesTheCpuForEqualKeys) {
  const std::size_t whole[] = {6'400, 640};
  expect_same_plan(GetParam(), whole, 1, Keys::kOne);
  const std::size_t counts[] = {33, 6'500, 1, 700, 5, 64};
  expect_same_plan(GetParam(), counts, 2, Keys::kOne);
}

TEST_P(SparsePlan, MatchesTheCpuForEmptyParameters) {
  const std::size_t counts[] = {0, 0};
  expect_same_plan(GetParam(), counts, 1, Keys::kFew);
}

}  // namespace
}  // namespace nf::test
