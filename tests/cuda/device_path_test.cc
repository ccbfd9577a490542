// A fabric with gradients on a device yields, step by step, the bits and decisions of one with
// gradients on the host.
#include "cuda/runtime/device_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "cuda/base/launch.h"
#include "cuda/collective/device_all_reduce.h"
#include "cuda/device_test.h"
#include "cuda/loopback.h"
#include "support/fabric_job.h"
#include "support/ranks.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;
using test::short_profile;
using Gradients = FabricRank::Gradients;

// An engine on the device: our own dense ring collectives, like OwnDenseEngine on the host.
class DeviceDenseSum final : public DenseEngine {
 public:
  DeviceDenseSum(cuda::StreamTransport& transport, cudaStream_t stream)
      : ranks_(transport.ranks()),
        rank_(transport.rank()),
        stream_(stream),
        all_reduce_(make(transport, Collective::kAllReduce)),
        reduce_scatter_(make(transport, Collective::kReduceScatter)) {}
  Status sum(Values values) override {
    ++calls_;
    const Gradient gradient{.parameter = 1, .values = values};
    return all_reduce_->enqueue({.gradients = {&gradient, 1}}, stream_);
  }
  Status reduce_scatter(Values rows, Reduction reduction) override {
    ++calls_;
    const std::size_t size = rows.count / ranks_;
    std::vector<Gradient> gradients;
    for (std::uint32_t row = 0; row < ranks_; ++row) {
      gradients.push_back(
          {.parameter = row,
           .values = Values(static_cast<float*>(rows.data) + row * size, size, rows.type)});
    }
    const std::vector<std::size_t> shards(ranks_, 1);
    NF_RETURN_IF_ERROR(reduce_scatter_->enqueue({.gradients = gradients}, shards, stream_));
    if (reduction == Reduction::kSum) return {};
    return cuda::scale(gradients[rank_].values, 1.0f / static_cast<float>(ranks_), stream_);
  }

  int calls() const { return calls_; }

 private:
  static std::unique_ptr<cuda::DeviceAllReduce> make(cuda::StreamTransport& transport,
                                                     Collective collective) {
    auto made = cuda::DeviceAllReduce::create(
        transport, {.collective = collective, .codec = "fp32", .topology = Topology::kRing});
    EXPECT_TRUE(made) << to_string(made.status());
    return std::move(*made);
  }

  const std::uint32_t ranks_;
  const std::uint32_t rank_;
  const cudaStream_t stream_;
  const std::unique_ptr<cuda::DeviceAllReduce> all_reduce_;
  const std::unique_ptr<cuda::DeviceAllReduce> reduce_scatter_;
  int calls_ = 0;
};

// The networks between the ranks of a job.
struct Networks {
  explicit Networks(std::uint32_t ranks) : engine(ranks) {
    for (int channel = 0; channel < 2; ++channel) channels.emplace_back(ranks);
  }
  test::LoopbackNetwork engine;
  std::deque<test::LoopbackNetwork> channels;
};

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

// One rank of a job on the device. Its buckets keep their addresses, like DDP's.
class DeviceRank {
 public:
  DeviceRank(Transport& control, Networks& networks, FabricOptions options,
             std::size_t max_channel_bytes = kMaxJoinedDenseBytes)
      : engine_transport_(networks.engine.endpoint(control.rank())) {
    stream_ = make_stream();
    engine_stream_ = make_stream();
    engine_ = std::make_unique<DeviceDenseSum>(*engine_transport_, engine_stream_);
    std::vector<cuda::Channel> channels;
    for (test::LoopbackNetwork& network : networks.channels) {
      transports_.push_back(network.endpoint(control.rank()));
      channel_streams_.push_back(make_stream());
      channels.push_back({.transport = *transports_.back(), .stream = channel_streams_.back()});
    }
    const auto make = [&](FabricOptions own) {
      return cuda::create_fabric(control,
                                 {.channels = channels,
                                  .engine = *engine_,
                                  .engine_stream = engine_stream_,
                                  .stream = stream_,
                                  .max_channel_bytes = max_channel_bytes},
                                 std::move(own));
    };
    const bool scatters = options.collective == Collective::kReduceScatter;
    if (scatters) gather_ = std::make_unique<test::OwnDenseEngine>(control);
    const auto average = [this, &control, scatters](Fabric& fabric, const Bucket& bucket) {
      const auto reduce = [&](const Bucket& own) { return reduce_on_device(fabric, own); };
      return scatters ? test::reduce_rows(control, *gather_, bucket, reduce) : reduce(bucket);
    };
    rank_ = std::make_unique<FabricRank>(control, std::move(options), make, average);
  }
  ~DeviceRank() {
    rank_.reset();
    engine_.reset();
    for (const auto& [index, memory] : buckets_) static_cast<void>(cudaFree(memory));
    for (const cudaStream_t stream : channel_streams_) static_cast<void>(cudaStreamDestroy(stream));
    static_cast<void>(cudaStreamDestroy(engine_stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  int engine_calls() const { return engine_->calls(); }
  FabricRank& operator*() { return *rank_; }
  FabricRank* operator->() { return rank_.get(); }

 private:
  Status reduce_on_device(Fabric& fabric, Bucket bucket) {
    const Values host = bucket.values;
    const std::size_t size = host.count * size_of(host.type);
    void*& memory = buckets_[bucket.index];
    if (memory == nullptr)
      NF_RETURN_IF_ERROR(cuda::to_status(cudaMalloc(&memory, size), "allocate"));
    bucket.values.data = memory;
    NF_RETURN_IF_ERROR(cuda::to_status(
        cudaMemcpyAsync(memory, host.data, size, cudaMemcpyHostToDevice, stream_), "copy"));
    NF_RETURN_IF_ERROR(fabric.all_reduce(bucket));
    NF_RETURN_IF_ERROR(cuda::to_status(
        cudaMemcpyAsync(host.data, memory, size, cudaMemcpyDeviceToHost, stream_), "copy"));
    return cuda::to_status(cudaStreamSynchronize(stream_), "wait");
  }

  std::unique_ptr<cuda::StreamTransport> engine_transport_;
  std::vector<std::unique_ptr<cuda::StreamTransport>> transports_;  // by channel
  std::vector<cudaStream_t> channel_streams_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t engine_stream_ = nullptr;
  std::unique_ptr<DeviceDenseSum> engine_;
  std::unique_ptr<test::OwnDenseEngine> gather_;  // of the rows of a reduce-scatter
  std::unique_ptr<FabricRank> rank_;
  std::map<std::uint32_t, void*> buckets_;
};

FabricOptions options(const std::string& route, Admit admit = Admit::kSafe) {
  return {.profile = short_profile(route), .admit = admit, .timeout = std::chrono::seconds(30)};
}

FabricOptions memory_options(const std::string& route) {
  FabricOptions own = options(route);
  own.profile.health.error_budget = 10;  // errors of a step are corrected in the next
  return own;
}

FabricOptions scattered(FabricOptions own) {
  own.collective = Collective::kReduceScatter;
  return own;
}

// The results of one step on one rank.
struct StepResult {
  Gradients gradients;
  std::string decision;
  std::optional<bool> should_step;
  double norm = 0;
  nlohmann::json error;
};

// Runs `steps` steps of a rank; `spoil` changes its gradients before a step.
using Spoil = std::function<void(int step, std::uint32_t rank, Gradients& own)>;
std::vector<StepResult> run_steps(FabricRank& rank, std::uint32_t number, int steps,
                                  const Spoil& spoil) {
  std::vector<StepResult> all;
  for (int step = 0; step < steps; ++step) {
    const Status status = rank.run_step([&](Gradients& own) {
      if (spoil) spoil(step, number, own);
    });
    EXPECT_TRUE(status.ok()) << to_string(status);
    StepResult seen{.gradients = rank.gradients(),
                    .decision = rank.decision("backbone"),
                    .should_step = rank.fabric().should_step(),
                    .error = {}};
    const auto record = nlohmann::json::parse(rank.records().back());
    for (const auto& region : record["regions"]) {
      if (region["name"] != "backbone") continue;
      seen.norm = region["norm"].is_null() ? -1 : region["norm"].get<double>();
      seen.error = region["error"];
    }
    all.push_back(std::move(seen));
  }
  return all;
}

void expect_same(std::uint32_t ranks, int steps, const FabricOptions& of, const Spoil& spoil = {}) {
  std::vector<std::vector<StepResult>> expected(ranks);
  on_all_ranks(ranks, [&](Transport& transport) {
    FabricRank rank(transport, of);
    expected[transport.rank()] = run_steps(rank, transport.rank(), steps, spoil);
  });
  std::vector<std::vector<StepResult>> got(ranks);
  Networks networks(ranks);
  on_all_ranks(ranks, [&](Transport& transport) {
    DeviceRank rank(transport, networks, of);
    got[transport.rank()] = run_steps(*rank, transport.rank(), steps, spoil);
    if (ranks > 1) {
      EXPECT_GT(rank->fabric().held_bytes(), 0u);
    }
  });
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ASSERT_EQ(got[rank].size(), expected[rank].size());
    for (int step = 0; step < steps; ++step) {
      const StepResult& one = got[rank][static_cast<std::size_t>(step)];
      const StepResult& other = expected[rank][static_cast<std::size_t>(step)];
      for (std::size_t p = 0; p < one.gradients.size(); ++p) {
        ASSERT_TRUE(test::same_bits(one.gradients[p], other.gradients[p]))
            << "rank " << rank << ", step " << step << ", parameter " << p;
      }
      EXPECT_EQ(one.decision, other.decision) << "step " << step;
      EXPECT_EQ(one.should_step, other.should_step) << "step " << step;
      EXPECT_NEAR(one.norm, other.norm, 1e-9 * std::abs(other.norm)) << "step " << step;
      EXPECT_EQ(one.error, other.error) << "step " << step;
    }
  }
}

class DevicePath : public test::OnDevice<testing::TestWithParam<std::uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DevicePath, testing::Values(1, 2, 3));

TEST_P(DevicePath, MatchesTheHost) { expect_same(GetParam(), 12, options("waterfill:4")); }

TEST_P(DevicePath, MatchesTheHostOnForcedRoutes) {
  expect_same(GetParam(), 4, options("g_binary", Admit::kForced));
  expect_same(GetParam(), 4, options("fp32", Admit::kForced));
}

// A bucket with two routes and dense values, in one exchange; and with a route that runs alone.
TEST_P(DevicePath, MatchesTheHostOnSeveralRoutesInABucket) {
  for (const char* head : {"g_binary", "waterfill:3+ef", "powersgd:2"}) {
    SCOPED_TRACE(head);
    FabricOptions own = memory_options("waterfill:4");
    own.admit = Admit::kForced;
    own.profile.phases[0].routes["head"] = head;
    expect_same(GetParam(), 4, own);
    if (head != std::string_view("powersgd:2")) expect_same(GetParam(), 4, scattered(own));
  }
}

TEST_P(DevicePath, MatchesTheHostInAReduceScatter) {
  expect_same(GetParam(), 12, scattered(options("waterfill:4")));
  expect_same(GetParam(), 4, scattered(options("g_binary", Admit::kForced)));
  expect_same(GetParam(), 4, scattered(options("fp32", Admit::kForced)));
  FabricOptions mixed = scattered(options("waterfill:4", Admit::kForced));
  mixed.profile.smallest_parameter = 0;  // so that a bucket has dense and low-bit values
  expect_same(GetParam(), 4, mixed);
  for (const char* route : {"waterfill:3+ef", "g_binary+ef"}) {
    SCOPED_TRACE(route);
    expect_same(GetParam(), 12, scattered(memory_options(route)));
  }
}

class DevicePathDense : public test::OnDevice<testing::TestWithParam<Collective>> {};
INSTANTIATE_TEST_SUITE_P(Collectives, DevicePathDense,
                         testing::Values(Collective::kAllReduce, Collective::kReduceScatter));

// With two ranks the sum has the same bits in any order.
TEST_P(DevicePathDense, UsesTheChannelForFewBytes) {
  constexpr std::uint32_t kRanks = 2;
  constexpr int kSteps = 3;
  FabricOptions of = options("waterfill:4", Admit::kForced);
  of.profile.smallest_parameter = 0;  // so that low-bit regions share a bucket with the head
  of.collective = GetParam();
  std::vector<std::vector<StepResult>> seen(kRanks);
  const auto train = [&](std::size_t max_channel_bytes) {
    std::vector<int> calls(kRanks);
    Networks networks(kRanks);
    on_all_ranks(kRanks, [&](Transport& transport) {
      DeviceRank rank(transport, networks, of, max_channel_bytes);
      const int before = rank.engine_calls();  // calls of the link measurement
      seen[transport.rank()] = run_steps(*rank, transport.rank(), kSteps, {});
      calls[transport.rank()] = rank.engine_calls() - before;
    });
    return calls;
  };
  EXPECT_THAT(train(0), testing::Each(kSteps));
  const std::vector<std::vector<StepResult>> expected = seen;
  EXPECT_THAT(train(1 << 20), testing::Each(0));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t step = 0; step < kSteps; ++step) {
      for (std::size_t p = 0; p < seen[rank][step].gradients.size(); ++p) {
        EXPECT_TRUE(
            test::same_bits(seen[rank][step].gradients[p], expected[rank][step].gradients[p]))
            << "rank " << rank << ", step " << step << ", parameter " << p;
      }
    }
  }
}

TEST_P(DevicePath, MatchesTheHostOnRoutesWithMemory) {
  for (const char* route : {"powersgd:2", "waterfill:3+ef", "g_binary+ef"}) {
    SCOPED_TRACE(route);
    const FabricOptions own = memory_options(route);
    expect_same(GetParam(), 12, own);
    expect_same(GetParam(), 12, own, [](int step, std::uint32_t rank, Gradients& gradients) {
      if (step == 6 && rank == 0) gradients[0][5] = std::numeric_limits<float>::quiet_NaN();
    });
  }
}

void expect_same_memory(std::uint32_t ranks, const FabricOptions& of) {
  std::vector<std::vector<Fabric::Memory>> memories(ranks);
  std::vector<std::string> states(ranks);
  std::vector<std::vector<StepResult>> expected(ranks);
  on_all_ranks(ranks, [&](Transport& transport) {
    FabricRank rank(transport, of);
    rank.fabric().set_loss_scale(512);
    run_steps(rank, transport.rank(), 8, {});
    rank.fabric().set_loss_scale(3);
    memories[transport.rank()] = *rank.fabric().memory();
    states[transport.rank()] = rank.fabric().state();
    expected[transport.rank()] = run_steps(rank, transport.rank(), 4, {});
  });
  EXPECT_EQ(memories[0].empty(), ranks == 1);
  Networks networks(ranks);
  on_all_ranks(ranks, [&](Transport& transport) {
    DeviceRank rank(transport, networks, of);
    rank->fabric().set_loss_scale(512);
    run_steps(*rank, transport.rank(), 8, {});
    const auto memory = rank->fabric().memory();
    ASSERT_TRUE(memory) << to_string(memory.status());
    const auto& other = memories[transport.rank()];
    ASSERT_EQ(memory->size(), other.size());
    for (std::size_t i = 0; i < other.size(); ++i) {
      EXPECT_EQ((*memory)[i].route, other[i].route);
      EXPECT_EQ((*memory)[i].entry, other[i].entry);
    }
  });
  Networks others(ranks);
  on_all_ranks(ranks, [&](Transport& transport) {
    DeviceRank rank(transport, others, of);
    ASSERT_TRUE(rank->fabric().load_state(states[transport.rank()]).ok());
    ASSERT_TRUE(rank->fabric().load_memory(memories[transport.rank()]).ok());
    rank->fabric().set_loss_scale(3);
    const std::vector<StepResult> got = run_steps(*rank, transport.rank(), 4, {});
    for (std::size_t step = 0; step < got.size(); ++step) {
      EXPECT_EQ(got[step].gradients, expected[transport.rank()][step].gradients);
    }
    const std::vector<Fabric::Memory> unknown = {
        {.route = "waterfill:4", .entry = {.parameter = 1, .kind = "residual"}}};
    EXPECT_EQ(rank->fabric().load_memory(unknown).code(), ErrorCode::kUnsupported);
  });
}

// The route memory is the same as the host's, and either can resume from it.
TEST_P(DevicePath, HasTheRouteMemoryOfTheHost) {
  for (const char* route : {"powersgd:2", "waterfill:3+ef"}) {
    SCOPED_TRACE(route);
    expect_same_memory(GetParam(), memory_options(route));
  }
  expect_same_memory(GetParam(), scattered(memory_options("waterfill:3+ef")));
}

TEST_P(DevicePath, FallsBackAtTheSameStep) {
  const Spoil spoil = [](int step, std::uint32_t rank, Gradients& own) {
    if (step == 6 && rank == 0) own[0][5] = std::numeric_limits<float>::quiet_NaN();
  };
  expect_same(GetParam(), 14, options("waterfill:4"), spoil);
  expect_same(GetParam(), 14, scattered(options("waterfill:4")), spoil);
}

TEST(DevicePathRoutes, RejectsHierarchicalErrorFeedback) {
  const Status status = cuda::check_device_collective(
      {.codec = "waterfill:4+ef", .topology = Topology::kHierarchical, .host_group_size = 2}, 4);
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("error feedback"), std::string::npos) << status.message();
  for (const char* route :
       {"waterfill:4", "waterfill:2+ef", "g_binary+ef", "topkc:1", "omnireduce:8", "powersgd:2"}) {
    for (const Topology topology : {Topology::kDirect, Topology::kTree}) {
      EXPECT_TRUE(cuda::check_device_collective({.codec = route, .topology = topology}, 8).ok())
          << route;
    }
  }
}

}  // namespace
}  // namespace nf
