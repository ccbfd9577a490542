#include "cuda/device_collective_case.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/collective/device_collective.h"
#include "cuda/collective/route_memories.h"
#include "cuda/device_copy.h"
#include "cuda/loopback.h"
#include "cuda/uneven_shards.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

// A parameter whose mean square is so small that its inverse overflows FP32.
constexpr std::size_t kQuietSize = 5'121;
constexpr std::size_t kSizes[] = {70'000, 256, 4, kQuietSize, 40'000, 777};
constexpr std::size_t kSteps = 3;
constexpr std::size_t kTileBytes = 8 << 10;
constexpr std::uint64_t kSeed = 5;

using RankValues = std::vector<TypedValues>;  // by parameter
using StepValues = std::vector<RankValues>;   // by rank
using JobValues = std::vector<StepValues>;    // by step

// Correlated ranks; one parameter is much quieter than the others.
StepValues values_of(const DeviceCollectiveCase& sum, std::uint64_t seed) {
  Generator random(seed);
  StepValues by_rank(sum.ranks);
  for (const std::size_t size : kSizes) {
    std::vector<float> shared = random.mixture(size);
    if (size == kQuietSize) {
      for (float& value : shared) value *= 1e-18f;
    }
    for (RankValues& own : by_rank) {
      std::vector<float> values = shared;
      for (float& value : values) value *= static_cast<float>(1 + 0.5 * random.normal());
      own.emplace_back(sum.type, values);
    }
  }
  return by_rank;
}

std::uint64_t key_of(std::size_t parameter) {
  return parameter_key("p" + std::to_string(parameter));
}

bool scatters(const DeviceCollectiveCase& sum) {
  return sum.collective == Collective::kReduceScatter;
}

void sum_on_cpu(const DeviceCollectiveCase& sum, JobValues& job) {
  on_all_ranks(sum.ranks, [&](Transport& transport) {
    const AllReduceOptions options{.codec = sum.codec,
                                   .topology = sum.topology,
                                   .host_group_size = sum.host_group_size,
                                   .seed = kSeed,
                                   .tile_bytes = kTileBytes};
    const auto run_steps = [&](auto made, auto run) {
      ASSERT_TRUE(made) << to_string(made.status());
      for (std::size_t step = 0; step < job.size(); ++step) {
        std::vector<Gradient> gradients;
        for (TypedValues& values : job[step][transport.rank()]) {
          gradients.push_back({.parameter = key_of(gradients.size()), .values = values.view()});
        }
        const Status status = run(**made, step, gradients);
        ASSERT_TRUE(status.ok()) << to_string(status);
      }
    };
    if (scatters(sum)) {
      run_steps(ReduceScatter::create(transport, options),
                [&](ReduceScatter& own, std::size_t step, const auto& gradients) {
                  const ShardedCall call(gradients, sum.ranks);
                  return own.run({.step = step, .shards = call.shards});
                });
    } else {
      run_steps(AllReduce::create(transport, options),
                [](AllReduce& own, std::size_t step, const auto& gradients) {
                  return own.run({.step = step, .gradients = gradients});
                });
    }
  });
}

// One rank of the job.
class DeviceRank {
 public:
  DeviceRank(const DeviceCollectiveCase& sum, cuda::StreamTransport& transport)
      : type_(sum.type),
        options_{.collective = sum.collective,
                 .codec = sum.codec,
                 .topology = sum.topology,
                 .host_group_size = sum.host_group_size,
                 .seed = kSeed,
                 .tile_bytes = kTileBytes} {
    std::size_t bytes = 0;
    for (const std::size_t size : kSizes) bytes += size * size_of(type_);
    for (void*& buffer : buffers_) expect_cuda(cudaMalloc(&buffer, bytes));
    expect_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (const std::size_t size : kSizes) {
      gradients_.push_back(
          {.parameter = key_of(gradients_.size()), .values = Values(nullptr, size, type_)});
    }
    if (scatters(sum)) {
      ShardedCall call(gradients_, sum.ranks);
      gradients_ = std::move(call.gradients);
      shards_ = std::move(call.counts);
    }
    memories_.emplace(cuda::pool_allocator(), stream_);
    const Expected<cuda::RouteMemory*> memory = memories_->find(sum.codec);
    EXPECT_TRUE(memory) << to_string(memory.status());
    if (!memory) return;
    auto made = cuda::make_device_collective(transport, options_, *memory);
    EXPECT_TRUE(made) << to_string(made.status());
    if (made) sum_ = std::move(*made);
  }
  ~DeviceRank() {
    sum_.reset();
    memories_.reset();
    expect_cuda(cudaStreamDestroy(stream_));
    for (void* buffer : buffers_) expect_cuda(cudaFree(buffer));
  }
  DeviceRank(const DeviceRank&) = delete;
  DeviceRank& operator=(const DeviceRank&) = delete;

  void run(std::uint64_t step, RankValues& own) {
    ASSERT_NE(sum_, nullptr);
    place_in(buffers_[step == 0 ? 0 : 1]);
    copy(own, cudaMemcpyHostToDevice);
    const Status status = sum_->enqueue({.step = step, .gradients = gradients_}, shards_, stream_);
    ASSERT_TRUE(status.ok()) << to_string(status);
    copy(own, cudaMemcpyDeviceToHost);
    expect_cuda(cudaStreamSynchronize(stream_));
    EXPECT_GT(sum_->traffic().payload, 0u);
  }

 private:
  void place_in(void* buffer) {
    auto* at = static_cast<std::byte*>(buffer);
    for (Gradient& gradient : gradients_) {
      gradient.values.data = at;
      at += gradient.values.count * size_of(type_);
    }
  }

  void copy(RankValues& own, cudaMemcpyKind kind) {
    for (std::size_t p = 0; p < own.size(); ++p) {
      void* host = own[p].view().data;
      void* device = gradients_[p].values.data;
      const bool to_host = kind == cudaMemcpyDeviceToHost;
      expect_cuda(cudaMemcpyAsync(to_host ? host : device, to_host ? device : host,
                                  own[p].count() * size_of(type_), kind, stream_));
    }
  }

  const DataType type_;
  const cuda::DeviceAllReduceOptions options_;
  void* buffers_[2] = {};
  cudaStream_t stream_ = nullptr;
  std::vector<Gradient> gradients_;
  std::vector<std::size_t> shards_;              // empty in an all-reduce
  std::optional<cuda::RouteMemories> memories_;  // outlive the sum
  std::unique_ptr<cuda::DeviceCollective> sum_;
};

void sum_on_device(const DeviceCollectiveCase& sum, JobValues& job) {
  LoopbackNetwork network(sum.ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < sum.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto endpoint = network.endpoint(rank);
      DeviceRank own(sum, *endpoint);
      for (std::size_t step = 0; step < job.size(); ++step) own.run(step, job[step][rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void expect_same(const TypedValues& summed, const TypedValues& expected) {
  const std::size_t size = size_of(expected.type());
  for (std::size_t i = 0; i < expected.count(); ++i) {
    ASSERT_EQ(std::memcmp(summed.data() + i * size, expected.data() + i * size, size), 0)
        << "element " << i << ": " << summed.widened()[i] << ", expected " << expected.widened()[i];
  }
}

}  // namespace

std::string name_of(const DeviceCollectiveCase& sum) {
  std::string name =
      sum.codec + "_" + std::string(to_string(sum.topology)) + "_" + std::to_string(sum.ranks);
  if (scatters(sum)) name += "_scattered";
  if (sum.host_group_size != 0) name += "_by_" + std::to_string(sum.host_group_size);
  if (sum.type != DataType::kFloat32) name += "_" + std::string(to_string(sum.type));
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

void expect_same_as_cpu(const DeviceCollectiveCase& sum) {
  JobValues expected;
  for (std::size_t step = 0; step < kSteps; ++step) expected.push_back(values_of(sum, step + 1));
  JobValues summed = expected;
  sum_on_cpu(sum, expected);
  sum_on_device(sum, summed);
  const std::vector<std::size_t> shards = uneven_shards(std::size(kSizes), sum.ranks);
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (std::uint32_t rank = 0; rank < sum.ranks; ++rank) {
      const std::size_t first = scatters(sum) ? first_of(shards, rank) : 0;
      const std::size_t count = scatters(sum) ? shards[rank] : std::size(kSizes);
      for (std::size_t p = first; p < first + count; ++p) {
        SCOPED_TRACE("step " + std::to_string(step) + ", rank " + std::to_string(rank) +
                     ", parameter " + std::to_string(p));
        expect_same(summed[step][rank][p], expected[step][rank][p]);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace nf::test
