// The parts of an exchange have the bits and bytes that they have alone, in fewer exchanges of the
// transport.
#include "cuda/collective/device_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "collective/route_memory.h"
#include "cuda/device_test.h"
#include "cuda/route_job.h"
#include "cuda/uneven_shards.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

// Counts the exchanges of another transport.
class CountingTransport final : public cuda::StreamTransport {
 public:
  explicit CountingTransport(cuda::StreamTransport& whole) : whole_(whole) {}

  std::string_view name() const override { return whole_.name(); }
  std::uint32_t rank() const override { return whole_.rank(); }
  std::uint32_t ranks() const override { return whole_.ranks(); }
  Status exchange(std::span<const cuda::StreamTransfer> sends,
                  std::span<const cuda::StreamTransfer> receives, cudaStream_t stream) override {
    ++exchanges;
    return whole_.exchange(sends, receives, stream);
  }
  Status health() override { return whole_.health(); }
  void abort(const Status& why) override { whole_.abort(why); }

  std::size_t exchanges = 0;

 private:
  cuda::StreamTransport& whole_;
};

// One job per part. They differ in codec and shapes only.
using Jobs = std::vector<RouteJob>;

// Small parameters of many alignments, with an empty one.
const std::vector<RouteJob::Shape> kSmall = {{0, 700}, {0, 3}, {0, 0}, {0, 2'501}, {0, 300}};

Jobs jobs_of(const std::vector<std::string>& codecs, RouteJob common) {
  Jobs jobs;
  common.shapes = kSmall;
  for (const std::string& codec : codecs) {
    jobs.push_back(common);
    jobs.back().codec = codec;
  }
  return jobs;
}

// The exchange of one rank: its jobs, one per part, and the exchange of all of them.
class ExchangeRank {
 public:
  ExchangeRank(const Jobs& jobs, cuda::StreamTransport& transport)
      : jobs_(jobs), transport_(transport), exchange_(transport_, wire_) {
    for (const RouteJob& job : jobs_) {
      const std::vector<cuda::StreamTransport*> channel = {&transport_};
      ranks_.push_back(std::make_unique<RouteRank>(job, channel));
    }
  }

  RouteRank& part(std::size_t i) { return *ranks_[i]; }
  std::size_t exchanges() const { return transport_.exchanges; }

  // Sums the values of all parts; `own` and `summed` are by part.
  Status run(std::size_t step, const std::vector<Parameters>& own,
             std::vector<Parameters>& summed) {
    const cudaStream_t stream = ranks_.front()->stream();
    std::vector<ShardedCall> calls;  // of a reduce-scatter
    std::vector<cuda::DeviceExchange::Input> inputs;
    calls.reserve(jobs_.size());
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      RouteRank& rank = *ranks_[i];
      rank.load(step, own[i], stream);
      inputs.push_back({.part = rank.sum().part(), .gradients = rank.gradients()});
      if (!jobs_[i].scatters()) continue;
      const ShardedCall& call = calls.emplace_back(rank.gradients(), jobs_[i].ranks);
      inputs.back().gradients = call.gradients;
      inputs.back().shards = call.counts;
    }
    const float loss_scale = jobs_.front().loss_scales[step];
    NF_RETURN_IF_ERROR(exchange_.enqueue({.step = step, .loss_scale = loss_scale}, inputs, stream));
    summed.resize(jobs_.size());
    for (std::size_t i = 0; i < jobs_.size(); ++i) ranks_[i]->store(summed[i], stream);
    return {};
  }

 private:
  const Jobs& jobs_;
  CountingTransport transport_;
  cuda::Wire wire_;
  std::vector<std::unique_ptr<RouteRank>> ranks_;
  cuda::DeviceExchange exchange_;
};

// The results of all steps.
struct Outcome {
  std::vector<RouteOutcome> parts;
  std::vector<std::vector<Traffic>> traffic;  // by rank and part
  std::size_t exchanges = 0;
};

Outcome exchange(const Jobs& jobs) {
  std::vector<std::vector<std::vector<Parameters>>> inputs;  // by part, step and rank
  Outcome outcome;
  for (const RouteJob& job : jobs) {
    inputs.push_back(job.values());
    outcome.parts.emplace_back(job);
  }
  const std::uint32_t ranks = jobs.front().ranks;
  outcome.traffic.resize(ranks);
  on_device_ranks(ranks, 1, [&](std::uint32_t rank, const auto& transports) {
    ExchangeRank own(jobs, *transports.front());
    for (std::size_t step = 0; step < jobs.front().loss_scales.size(); ++step) {
      std::vector<Parameters> values;
      for (const auto& input : inputs) values.push_back(input[step][rank]);
      std::vector<Parameters> summed;
      expect_ok(own.run(step, values, summed), "an exchange");
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        outcome.parts[i].values[step][rank] = std::move(summed[i]);
        keep_results(jobs[i], rank, outcome.parts[i].values[step][rank]);
      }
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      outcome.traffic[rank].push_back(own.part(i).sum().traffic());
      if (!has_route_memory(jobs[i].codec)) continue;
      const auto saved = own.part(i).memory().save_memory();
      ASSERT_TRUE(saved) << to_string(saved.status());
      outcome.parts[i].memory[rank] = *saved;
    }
    if (rank == 0) outcome.exchanges = own.exchanges();
  });
  return outcome;
}

// Expects for every part the bits of the CPU, and the bytes and at most the exchanges of the part
// alone on a device.
void expect_parts_as_alone(const Jobs& jobs) {
  const Outcome together = exchange(jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].shapes.empty()) continue;
    SCOPED_TRACE("part " + std::to_string(i) + ", " + jobs[i].codec);
    expect_same(jobs[i], together.parts[i], on_cpu(jobs[i]));
    const Outcome alone = exchange({jobs[i]});
    EXPECT_LE(alone.exchanges, together.exchanges);
    for (std::uint32_t rank = 0; rank < jobs[i].ranks; ++rank) {
      EXPECT_EQ(together.traffic[rank][i].total(), alone.traffic[rank][0].total());
      EXPECT_EQ(together.traffic[rank][i].sums, alone.traffic[rank][0].sums);
    }
    if (testing::Test::HasFailure()) return;
  }
}

class DeviceExchange : public OnDevice<> {};

// Every kind of codec: widths, sparse blocks, scales, counting codes, signs, and dense values.
const std::vector<std::string> kCodecs = {"waterfill:4", "topkc:2", "mxfp4",   "thc",
                                          "dynamiq:5",   "marsit",  "g_binary"};

TEST_F(DeviceExchange, HasTheResultsOfEachPartAlone) {
  for (const Topology topology :
       {Topology::kDirect, Topology::kRing, Topology::kTree, Topology::kHalvingDoubling}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      SCOPED_TRACE(testing::Message() << to_string(topology) << " " << to_string(type));
      std::vector<std::string> codecs = kCodecs;
      codecs.emplace_back(to_string(type));  // dense values
      expect_parts_as_alone(jobs_of(codecs, {.ranks = 4, .type = type, .topology = topology}));
    }
  }
}

TEST_F(DeviceExchange, HasTheResultsOfEachPartAloneInAReduceScatter) {
  for (const Topology topology : {Topology::kDirect, Topology::kRing}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      SCOPED_TRACE(testing::Message() << to_string(topology) << " " << to_string(type));
      std::vector<std::string> codecs = kCodecs;
      codecs.emplace_back(to_string(type));
      codecs.emplace_back("waterfill:3+ef");
      expect_parts_as_alone(jobs_of(codecs, {.collective = Collective::kReduceScatter,
                                             .ranks = 3,
                                             .type = type,
                                             .topology = topology}));
    }
  }
}

TEST_F(DeviceExchange, KeepsTheResidualsOfEachPart) {
  for (const Topology topology : {Topology::kDirect, Topology::kTree}) {
    SCOPED_TRACE(to_string(topology));
    expect_parts_as_alone(jobs_of({"waterfill:3+ef", "bf16", "g_binary+ef", "waterfill:4"},
                                  {.ranks = 3,
                                   .type = DataType::kBfloat16,
                                   .topology = topology,
                                   .loss_scales = {1024, 1024, 3, 0.125f}}));
  }
}

// Parts with several tiles next to parts with one, and a part without gradients.
TEST_F(DeviceExchange, SumsPartsOfDifferentSizes) {
  for (const Topology topology : {Topology::kDirect, Topology::kRing}) {
    SCOPED_TRACE(to_string(topology));
    Jobs jobs = jobs_of({"waterfill:4", "fp32", "g_binary", "mxfp8", "dynamiq:5"},
                        {.ranks = 2, .topology = topology, .loss_scales = {1, 1, 1}});
    jobs[1].shapes = {{0, 300'001}, {0, 7}};
    jobs[2].shapes = {};
    jobs[3].shapes = {{0, 900'000}};
    jobs[4].shapes = {{0, 0}, {0, 1}};
    expect_parts_as_alone(jobs);
  }
}

TEST_F(DeviceExchange, TakesTheExchangesOfOnePart) {
  for (const Topology topology : {Topology::kDirect, Topology::kRing, Topology::kTree}) {
    const RouteJob common{.ranks = 4, .topology = topology, .loss_scales = {1, 1}};
    const std::size_t of_one = exchange(jobs_of({"waterfill:4"}, common)).exchanges;
    const Jobs three = jobs_of({"waterfill:4", "waterfill:3", "dynamiq:5", "fp32"}, common);
    EXPECT_EQ(exchange(three).exchanges, of_one);
    EXPECT_GT(of_one, 4u);  // statistics, twice per step, and at least two rounds
  }
}

// A part that cannot allocate its memory fails the exchange before anything is sent.
TEST_F(DeviceExchange, SendsNothingIfAPartCannotBeEnqueued) {
  class NoMemory final : public cuda::DeviceAllocator {
   public:
    void* allocate(std::size_t, cudaStream_t) override { return nullptr; }
    void free(void*, cudaStream_t) override {}
  };
  class TwoRanks final : public cuda::StreamTransport {
   public:
    std::string_view name() const override { return "two ranks"; }
    std::uint32_t rank() const override { return 0; }
    std::uint32_t ranks() const override { return 2; }
    Status exchange(std::span<const cuda::StreamTransfer>, std::span<const cuda::StreamTransfer>,
                    cudaStream_t) override {
      ++exchanges;
      return {};
    }
    Status health() override { return {}; }
    void abort(const Status&) override {}

    int exchanges = 0;
  };
  NoMemory no_memory;
  TwoRanks transport;
  cuda::Wire wire;
  cudaStream_t stream = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    const auto good = cuda::DeviceExchangePart::create({.codec = "waterfill:4"}, 0, 2, nullptr);
    const auto bad = cuda::DeviceExchangePart::create({.codec = "mxfp4", .allocator = &no_memory},
                                                      0, 2, nullptr);
    ASSERT_TRUE(good && bad);
    const DeviceCopy values(std::vector<float>(1'000, 1));
    const Gradient gradient{.parameter = 1,
                            .values = Values(values.as<float>(), 1'000, DataType::kFloat32)};
    const std::vector<cuda::DeviceExchange::Input> inputs = {
        {.part = good->get(), .gradients = {&gradient, 1}},
        {.part = bad->get(), .gradients = {&gradient, 1}}};
    cuda::DeviceExchange exchange(transport, wire);
    EXPECT_EQ(exchange.enqueue({}, inputs, stream).code(), ErrorCode::kOutOfMemory);
    EXPECT_EQ(transport.exchanges, 0);
    expect_ok(exchange.enqueue({}, std::span(inputs).first(1), stream), "the other part alone");
    EXPECT_GT(transport.exchanges, 0);
    expect_cuda(cudaStreamSynchronize(stream));
  }
  expect_cuda(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace nf::test
