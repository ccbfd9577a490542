// The sum of device memory is, bit for bit, the sum that the CPU makes of the same values.
#include "cuda/device_all_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cuda/device_copy.h"
#include "cuda/loopback.h"
#include "support/generator.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::has_device;

using test::Parameters;

// Of which the mean square is below what FP32 holds the inverse of.
constexpr std::size_t kQuietSize = 5'121;
constexpr std::size_t kSizes[] = {70'000, 256, 4, kQuietSize, 40'000, 777};
constexpr std::uint64_t kStep = 3;

// Correlated ranks; one parameter is much quieter than the others.
std::vector<Parameters> values_of(std::uint32_t ranks, std::uint64_t seed) {
  test::Generator random(seed);
  std::vector<Parameters> by_rank(ranks);
  for (const std::size_t size : kSizes) {
    std::vector<float> shared = random.mixture(size);
    if (size == kQuietSize) {
      for (float& value : shared) value *= 1e-18f;
    }
    for (Parameters& own : by_rank) {
      own.push_back(shared);
      for (float& value : own.back()) value *= static_cast<float>(1 + 0.5 * random.normal());
    }
  }
  return by_rank;
}

// One rank: its parameters lie in a row, as in a bucket, at the alignment of their type only.
void sum_on_device(cuda::StreamTransport& transport, const cuda::DeviceAllReduceOptions& options,
                   Parameters& own, int calls) {
  std::size_t values = 0;
  for (const std::vector<float>& parameter : own) values += parameter.size();
  void* room = nullptr;
  ASSERT_EQ(cudaMalloc(&room, values * sizeof(float)), cudaSuccess);
  auto* memory = static_cast<float*>(room);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  auto sum = cuda::DeviceAllReduce::create(transport, options);
  ASSERT_TRUE(sum) << to_string(sum.status());
  std::vector<Gradient> gradients;
  std::size_t at = 0;
  for (std::size_t p = 0; p < own.size(); ++p) {
    gradients.push_back({.parameter = parameter_key("p" + std::to_string(p)),
                         .values = Values(memory + at, own[p].size(), DataType::kFloat32)});
    at += own[p].size();
  }
  for (int call = 0; call < calls; ++call) {  // the same every time
    for (std::size_t p = 0; p < own.size(); ++p) {
      ASSERT_EQ(cudaMemcpyAsync(gradients[p].values.data, own[p].data(),
                                own[p].size() * sizeof(float), cudaMemcpyHostToDevice, stream),
                cudaSuccess);
    }
    const Status status = (*sum)->enqueue({.step = kStep, .gradients = gradients}, stream);
    ASSERT_TRUE(status.ok()) << to_string(status);
  }
  for (std::size_t p = 0; p < own.size(); ++p) {
    ASSERT_EQ(cudaMemcpyAsync(own[p].data(), gradients[p].values.data,
                              own[p].size() * sizeof(float), cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_GT((*sum)->traffic().payload, 0u);
  (*sum).reset();
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
}

class DeviceAllReduce
    : public testing::TestWithParam<std::tuple<std::string, Topology, std::uint32_t>> {};

TEST_P(DeviceAllReduce, MakesTheSumOfTheCpu) {
  if (!has_device()) GTEST_SKIP() << "no CUDA device on this machine";
  const auto& [codec, topology, ranks] = GetParam();
  constexpr std::size_t kTileBytes = 8 << 10;
  const std::vector<Parameters> before = values_of(ranks, 1);
  const std::vector<Parameters> expected = test::all_reduce(
      {.codec = codec, .topology = topology, .seed = 5, .tile_bytes = kTileBytes}, before, kStep);

  std::vector<Parameters> summed = before;
  test::LoopbackNetwork network(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto endpoint = network.endpoint(rank);
      sum_on_device(*endpoint,
                    {.codec = codec, .topology = topology, .seed = 5, .tile_bytes = kTileBytes},
                    summed[rank], 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t p = 0; p < expected[rank].size(); ++p) {
      for (std::size_t i = 0; i < expected[rank][p].size(); ++i) {
        ASSERT_EQ(std::memcmp(&summed[rank][p][i], &expected[rank][p][i], sizeof(float)), 0)
            << "rank " << rank << ", parameter " << p << ", element " << i << ": "
            << summed[rank][p][i] << ", expected " << expected[rank][p][i] << ", was "
            << before[rank][p][i];
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<DeviceAllReduce::ParamType>& test) {
  std::string name = std::get<0>(test.param) + "_" +
                     std::string(to_string(std::get<1>(test.param))) + "_" +
                     std::to_string(std::get<2>(test.param));
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, DeviceAllReduce,
    testing::Combine(testing::Values("waterfill:4", "waterfill:4+alpha=1", "waterfill:5+flat",
                                     "waterfill+width=4", "dynamiq:5", "bf16", "fp32", "g_binary",
                                     "g_ternary", "mxfp8", "thc", "omnireduce:4", "topkc:4",
                                     "topkc:1+block=1024"),
                     testing::Values(Topology::kDirect, Topology::kRing),
                     testing::Values(2u, 3u, 4u)),
    name_of);
INSTANTIATE_TEST_SUITE_P(
    ManyRanks, DeviceAllReduce,
    testing::Combine(testing::Values("waterfill:4", "dynamiq:5", "omnireduce:4", "thc"),
                     testing::Values(Topology::kDirect, Topology::kRing), testing::Values(8u)),
    name_of);

TEST(DeviceAllReduceCheck, RefusesWhatKernelsDoNotAddAtOnce) {
  const auto code = [](Topology topology, std::uint32_t ranks) {
    return cuda::DeviceAllReduce::check({.codec = "waterfill:4", .topology = topology}, ranks)
        .code();
  };
  EXPECT_EQ(code(Topology::kTree, 3), ErrorCode::kOk);
  EXPECT_EQ(code(Topology::kTree, 4), ErrorCode::kUnsupported);
  EXPECT_EQ(code(Topology::kHalvingDoubling, 4), ErrorCode::kUnsupported);
  EXPECT_EQ(code(Topology::kDirect, 65), ErrorCode::kOk);  // 64 messages
  EXPECT_EQ(code(Topology::kDirect, 66), ErrorCode::kUnsupported);
  EXPECT_EQ(code(Topology::kRing, 66), ErrorCode::kOk);
}

}  // namespace
}  // namespace nf
