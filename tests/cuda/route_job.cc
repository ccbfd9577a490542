#include "cuda/route_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include "cuda/device_copy.h"
#include "cuda/loopback.h"
#include "cuda/uneven_shards.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

constexpr std::uint64_t kSeed = 9;
constexpr std::size_t kTileBytes = 256 << 10;  // the same on both, since widths depend on it

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// One rank on the CPU.
struct CpuRank {
  const RouteJob& job;
  const std::uint32_t rank;
  const std::size_t begin;
  const std::vector<std::vector<MemoryEntry>>& memory;
  RouteOutcome& outcome;

  // run_call(sum, step, gradients) runs one call.
  template <typename Sum, typename RunCall>
  void run(Expected<std::unique_ptr<Sum>> sum, RunCall run_call) const {
    ASSERT_TRUE(sum) << to_string(sum.status());
    if (!memory.empty()) expect_ok((*sum)->load_memory(memory[rank]), "load_memory");
    const auto inputs = job.values();
    for (std::size_t step = begin; step < inputs.size(); ++step) {
      std::vector<TypedValues> typed;
      for (const auto& values : inputs[step][rank]) typed.emplace_back(job.type, values);
      std::vector<Gradient> gradients;
      for (std::size_t p = 0; p < typed.size(); ++p) {
        gradients.push_back(
            {.parameter = RouteJob::key(p), .values = typed[p].view(), .rows = job.shapes[p].rows});
      }
      for (std::size_t call = 0; call < job.calls; ++call) {
        expect_ok(run_call(**sum, step, job.part(gradients, call)), "collective on the CPU");
      }
      Parameters& summed = outcome.values[step][rank];
      for (const TypedValues& values : typed) summed.push_back(values.widened());
      keep_results(job, rank, summed);
    }
    outcome.memory[rank] = (*sum)->save_memory();
  }
};

}  // namespace

void keep_results(const RouteJob& job, std::uint32_t rank, Parameters& values) {
  if (!job.scatters()) return;
  const std::vector<Gradient> all(values.size());
  std::size_t p = 0;
  for (std::size_t call = 0; call < job.calls; ++call) {
    const std::vector<std::size_t> shards = uneven_shards(job.part(all, call).size(), job.ranks);
    for (std::uint32_t owner = 0; owner < job.ranks; ++owner) {
      for (std::size_t end = p + shards[owner]; p < end; ++p) {
        if (owner != rank) values[p].clear();
      }
    }
  }
}

std::vector<RouteJob::Shape> RouteJob::shapes_of_all_kinds() {
  return {{0, 7},         matrix(100, 150), matrix(1, 40), {0, 2'500},      matrix(9, 1'037),
          matrix(70, 65), matrix(5, 3),     {0, 0},        matrix(333, 16), matrix(150, 201)};
}

std::uint64_t RouteJob::key(std::size_t parameter) {
  return parameter_key("p" + std::to_string(parameter));
}

std::span<const Gradient> RouteJob::part(std::span<const Gradient> gradients,
                                         std::size_t call) const {
  const std::size_t first = call * gradients.size() / calls;
  return gradients.subspan(first, (call + 1) * gradients.size() / calls - first);
}

std::vector<std::vector<Parameters>> RouteJob::values() const {
  Generator random(3);
  std::vector<Parameters> shared(1);
  for (const RouteJob::Shape& shape : shapes) {
    const std::size_t rows = std::max<std::size_t>(shape.rows, 1);
    const std::size_t cols = shape.count / rows;
    const std::vector<float> left = random.normal(rows);
    const std::vector<float> right = random.normal(cols);
    std::vector<float>& values = shared[0].emplace_back(shape.count);
    for (std::size_t i = 0; i < shape.count; ++i) values[i] = left[i / cols] * right[i % cols];
  }
  std::vector<std::vector<Parameters>> by_step(loss_scales.size());
  for (std::size_t step = 0; step < by_step.size(); ++step) {
    by_step[step].assign(ranks, shared[0]);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::vector<float>& values : by_step[step][rank]) {
        for (float& value : values) {
          value = (value + 0.3f * static_cast<float>(random.normal())) * loss_scales[step];
        }
      }
      if (spoil) spoil(step, rank, by_step[step][rank]);
    }
  }
  return by_step;
}

RouteOutcome on_cpu(const RouteJob& job, std::size_t begin,
                    const std::vector<std::vector<MemoryEntry>>& memory) {
  RouteOutcome outcome(job);
  on_all_ranks(job.ranks, [&](Transport& transport) {
    const AllReduceOptions options{
        .codec = job.codec, .topology = job.topology, .seed = kSeed, .tile_bytes = kTileBytes};
    const CpuRank rank{job, transport.rank(), begin, memory, outcome};
    if (job.scatters()) {
      rank.run(ReduceScatter::create(transport, options), [&](ReduceScatter& sum, std::size_t step,
                                                              std::span<const Gradient> gradients) {
        const ShardedCall call(gradients, job.ranks);
        return sum.run({.step = step, .shards = call.shards, .loss_scale = job.loss_scales[step]});
      });
    } else {
      rank.run(AllReduce::create(transport, options), [&](AllReduce& sum, std::size_t step,
                                                          std::span<const Gradient> gradients) {
        return sum.run({.step = step, .gradients = gradients, .loss_scale = job.loss_scales[step]});
      });
    }
  });
  return outcome;
}

RouteRank::RouteRank(const RouteJob& job, const std::vector<cuda::StreamTransport*>& channels)
    : job_(job), home_(make_stream()), memories_(cuda::pool_allocator(), home_) {
  const Expected<cuda::RouteMemory*> memory = memories_.find(job.codec);
  EXPECT_TRUE(memory) << to_string(memory.status());
  memory_ = *memory;
  for (cuda::StreamTransport* channel : channels) {
    auto made = cuda::make_device_collective(*channel,
                                             {.collective = job.collective,
                                              .codec = job.codec,
                                              .topology = job.topology,
                                              .seed = kSeed,
                                              .tile_bytes = kTileBytes},
                                             memory_);
    EXPECT_TRUE(made) << to_string(made.status());
    sums_.push_back(std::move(*made));
    streams_.push_back(make_stream());
  }
  std::size_t bytes = 0;
  for (const RouteJob::Shape& shape : job.shapes) bytes += shape.count * size_of(job.type);
  for (void*& buffer : buffers_) {
    expect_cuda(cudaMalloc(&buffer, std::max<std::size_t>(bytes, 1)));
  }
  for (std::size_t p = 0; p < job.shapes.size(); ++p) {
    gradients_.push_back({.parameter = RouteJob::key(p),
                          .values = Values(nullptr, job.shapes[p].count, job.type),
                          .rows = job.shapes[p].rows});
  }
  place_in(buffers_[0]);
}

void RouteRank::place_in(void* buffer) {
  auto* at = static_cast<std::byte*>(buffer);
  for (std::size_t p = 0; p < gradients_.size(); ++p) {
    gradients_[p].values.data = at;
    at += job_.shapes[p].count * size_of(job_.type);
  }
}

RouteRank::~RouteRank() {
  for (const cudaStream_t stream : streams_) expect_cuda(cudaStreamSynchronize(stream));
  expect_cuda(cudaStreamSynchronize(home_));
  sums_.clear();
  for (void* buffer : buffers_) expect_cuda(cudaFree(buffer));
}

Status RouteRank::run_call(cuda::DeviceCollective& sum, std::size_t step,
                           std::span<const Gradient> gradients, cudaStream_t stream) const {
  const float scale = job_.loss_scales[step];
  if (!job_.scatters()) {
    return sum.enqueue({.step = step, .gradients = gradients, .loss_scale = scale}, stream);
  }
  const ShardedCall call(gradients, job_.ranks);
  return sum.enqueue({.step = step, .gradients = call.gradients, .loss_scale = scale}, call.counts,
                     stream);
}

Status RouteRank::run(std::size_t step, const Parameters& own, Parameters& summed) {
  const std::size_t channel = step % sums_.size();
  const cudaStream_t stream = streams_[channel];
  load(step, own, stream);
  for (std::size_t call = 0; call < job_.calls; ++call) {
    NF_RETURN_IF_ERROR(run_call(*sums_[channel], step, job_.part(gradients_, call), stream));
  }
  store(summed, stream);
  return {};
}

void RouteRank::load(std::size_t step, const Parameters& own, cudaStream_t stream) {
  place_in(buffers_[step / 2 % 2]);
  on_host_.clear();
  for (const auto& values : own) on_host_.emplace_back(job_.type, values);
  for (std::size_t p = 0; p < on_host_.size(); ++p) {
    expect_cuda(cudaMemcpyAsync(gradients_[p].values.data, on_host_[p].data(),
                                on_host_[p].count() * size_of(job_.type), cudaMemcpyHostToDevice,
                                stream));
  }
}

void RouteRank::store(Parameters& summed, cudaStream_t stream) {
  for (std::size_t p = 0; p < on_host_.size(); ++p) {
    expect_cuda(cudaMemcpyAsync(on_host_[p].view().data, gradients_[p].values.data,
                                on_host_[p].count() * size_of(job_.type), cudaMemcpyDeviceToHost,
                                stream));
  }
  expect_cuda(cudaStreamSynchronize(stream));
  for (const TypedValues& values : on_host_) summed.push_back(values.widened());
}

void on_device_ranks(
    std::uint32_t ranks, std::size_t channels,
    const std::function<void(std::uint32_t, const std::vector<cuda::StreamTransport*>&)>& work) {
  std::vector<std::unique_ptr<LoopbackNetwork>> networks;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    networks.push_back(std::make_unique<LoopbackNetwork>(ranks));
  }
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::unique_ptr<cuda::StreamTransport>> own;
      std::vector<cuda::StreamTransport*> transports;
      for (const auto& network : networks) {
        transports.push_back(own.emplace_back(network->endpoint(rank)).get());
      }
      work(rank, transports);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

RouteOutcome on_device(const RouteJob& job, std::size_t channels, std::size_t begin,
                       const std::vector<std::vector<MemoryEntry>>& memory) {
  const auto inputs = job.values();
  RouteOutcome outcome(job);
  on_device_ranks(job.ranks, channels, [&](std::uint32_t rank, const auto& transports) {
    RouteRank own(job, transports);
    if (!memory.empty()) expect_ok(own.memory().load_memory(memory[rank]), "load_memory");
    for (std::size_t step = begin; step < inputs.size(); ++step) {
      expect_ok(own.run(step, inputs[step][rank], outcome.values[step][rank]),
                "collective on the device");
      keep_results(job, rank, outcome.values[step][rank]);
    }
    auto saved = own.memory().save_memory();
    ASSERT_TRUE(saved) << to_string(saved.status());
    outcome.memory[rank] = std::move(*saved);
    EXPECT_EQ(own.memory().size() > 0, !outcome.memory[rank].empty());
    EXPECT_GT(own.sum().memory(), 0u);
    EXPECT_GT(own.sum().traffic().payload, 0u);
  });
  return outcome;
}

void expect_same(const RouteJob& job, const RouteOutcome& got, const RouteOutcome& expected,
                 std::size_t begin) {
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
    for (std::size_t step = begin; step < job.loss_scales.size(); ++step) {
      const Parameters& one = got.values[step][rank];
      const Parameters& other = expected.values[step][rank];
      ASSERT_EQ(one.size(), other.size());
      for (std::size_t p = 0; p < one.size(); ++p) {
        ASSERT_TRUE(same_bits(one[p], other[p]))
            << "rank " << rank << ", step " << step << ", parameter " << p;
      }
    }
    ASSERT_EQ(got.memory[rank].size(), expected.memory[rank].size());
    for (std::size_t i = 0; i < got.memory[rank].size(); ++i) {
      const MemoryEntry& one = got.memory[rank][i];
      const MemoryEntry& other = expected.memory[rank][i];
      EXPECT_EQ(std::tie(one.parameter, one.kind, one.rows),
                std::tie(other.parameter, other.kind, other.rows));
      ASSERT_TRUE(same_bits(one.values, other.values)) << "rank " << rank << ", " << one.kind;
    }
  }
}

void expect_same_as_cpu(const RouteJob& job, std::size_t entries) {
  const RouteOutcome expected = on_cpu(job);
  EXPECT_FALSE(expected.memory[0].empty());
  if (entries > 0) {
    EXPECT_EQ(expected.memory[0].size(), entries);
  }
  expect_same(job, on_device(job), expected);
}

void expect_restart_after_forget(const RouteJob& job) {
  const auto inputs = job.values();
  std::vector<Parameters> first(job.ranks);
  std::vector<Parameters> again(job.ranks);
  on_device_ranks(job.ranks, 1, [&](std::uint32_t rank, const auto& transports) {
    RouteRank own(job, transports);
    Parameters between;
    expect_ok(own.run(0, inputs[0][rank], first[rank]), "first step");
    expect_ok(own.run(1, inputs[1][rank], between), "second step");
    own.memory().forget(RouteJob::key(0));
    expect_ok(own.run(0, inputs[0][rank], again[rank]), "first step again");
  });
  EXPECT_TRUE(same_bits(again[0][0], first[0][0]));
}

}  // namespace nf::test
