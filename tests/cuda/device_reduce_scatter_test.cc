// Reduce-scatter in device memory yields the bits of the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cuda/collective/device_all_reduce.h"
#include "cuda/device_collective_case.h"
#include "cuda/device_test.h"
#include "cuda/route_job.h"
#include "cuda/runtime/device_path.h"
#include "cuda/uneven_shards.h"
#include "neuron_fabric/codec.h"
#include "runtime/topology_choice.h"
#include "support/spellings.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

using testing::HasSubstr;

constexpr Collective kCollective = Collective::kReduceScatter;
const std::vector<Topology> kTopologies = {Topology::kDirect, Topology::kRing};

std::vector<DeviceCollectiveCase> cases(const std::vector<std::string>& codecs,
                                        const std::vector<std::uint32_t>& ranks,
                                        const std::vector<DataType>& types = {DataType::kFloat32},
                                        const std::vector<Topology>& topologies = kTopologies) {
  std::vector<DeviceCollectiveCase> made;
  for (const std::string& codec : codecs) {
    for (const Topology topology : topologies) {
      for (const std::uint32_t n : ranks) {
        for (const DataType type : types)
          made.push_back({codec, topology, n, 0, type, kCollective});
      }
    }
  }
  return made;
}

class DeviceReduceScatter : public OnDevice<testing::TestWithParam<DeviceCollectiveCase>> {};

TEST_P(DeviceReduceScatter, MatchesTheCpu) { expect_same_as_cpu(GetParam()); }

std::string case_name(const testing::TestParamInfo<DeviceCollectiveCase>& test) {
  return name_of(test.param);
}

// The example of every codec, and options that change the plan.
std::vector<std::string> examples_and_variants() {
  std::vector<std::string> codecs = {
      "waterfill:4+alpha=1", "waterfill:5+flat", "waterfill+width=4",
      "omnireduce:4",        "topkc:4",          "topkc:1+block=1024"};
  for (const CodecEntry& entry : builtin_codecs()) codecs.emplace_back(entry.example);
  return codecs;
}

std::vector<std::string> routes_with_feedback() {
  return codec_spellings([](const Codec& codec) { return codec.keeps_residual(); });
}

INSTANTIATE_TEST_SUITE_P(Codecs, DeviceReduceScatter,
                         testing::ValuesIn(cases(examples_and_variants(), {2, 3, 4, 5})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(HalfPrecision, DeviceReduceScatter,
                         testing::ValuesIn(cases({"waterfill:4", "dynamiq:5", "mxfp8", "fp32",
                                                  "bf16", "fp16", "g_binary", "thc", "topkc:4"},
                                                 {2, 5},
                                                 {DataType::kBfloat16, DataType::kFloat16})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Feedback, DeviceReduceScatter,
                         testing::ValuesIn(cases(routes_with_feedback(), {2, 3, 5},
                                                 {DataType::kFloat32, DataType::kBfloat16})),
                         case_name);
// More messages than one kernel adds.
INSTANTIATE_TEST_SUITE_P(MoreThanOneKernel, DeviceReduceScatter,
                         testing::ValuesIn(cases({"waterfill+width=4", "g_binary"}, {67},
                                                 {DataType::kFloat32, DataType::kBfloat16},
                                                 {Topology::kDirect})),
                         case_name);

class DeviceReduceScatterFeedback : public OnDevice<> {
 protected:
  // Calls check(job) for every route and type.
  template <typename Check>
  void for_each_job(RouteJob job, Check check) {
    job.collective = kCollective;
    for (const std::string& route : routes_with_feedback()) {
      for (const DataType type : kAllTypes) {
        SCOPED_TRACE(testing::Message() << route << " " << to_string(type));
        job.codec = route;
        job.type = type;
        check(job);
        if (HasFailure()) return;
      }
    }
  }
};

// Values and residuals, over several calls per step.
TEST_F(DeviceReduceScatterFeedback, MatchesTheCpu) {
  for_each_job({.ranks = 3, .calls = 2, .loss_scales = {1024, 1024, 3, 0.125f}},
               [](const RouteJob& job) { expect_same_as_cpu(job, job.shapes.size()); });
  for_each_job({.ranks = 4, .topology = Topology::kRing},
               [](const RouteJob& job) { expect_same_as_cpu(job, job.shapes.size()); });
}

// Parameters of the first shard. One rank has zeros, so its residual is neither added nor changed;
// then one has NaN, and then the sum overflows.
TEST_F(DeviceReduceScatterFeedback, KeepsOldResidualsLikeTheCpu) {
  for (const char* spoiled : {"zeros", "nan", "overflow"}) {
    SCOPED_TRACE(spoiled);
    for_each_job({.ranks = 3, .loss_scales = {1, 1, 1, 1}}, [&](RouteJob job) {
      const float huge = job.type == DataType::kFloat16 ? 6e4f : 3e38f;
      job.spoil = [=, what = std::string(spoiled)](std::size_t step, std::uint32_t rank,
                                                   Parameters& own) {
        if (step != 2) return;
        if (what == "zeros" && rank == 1) std::ranges::fill(own[4], 0.0f);
        if (what == "nan" && rank == 1) own[3][2'499] = std::numeric_limits<float>::quiet_NaN();
        if (what == "overflow") std::ranges::fill(own[3], huge);
      };
      const RouteOutcome expected = on_cpu(job);
      EXPECT_EQ(std::isfinite(expected.values[2][0][3][2'499]), std::string(spoiled) == "zeros");
      expect_same(job, on_device(job), expected);
    });
  }
}

class DeviceReduceScatterCall : public OnDevice<> {};

// No exchange takes place, and the next call succeeds.
TEST_F(DeviceReduceScatterCall, RejectsShardsThatDoNotMatch) {
  for (const char* codec : {"waterfill:4", "waterfill:4+ef"}) {
    const RouteJob job{
        .collective = kCollective, .codec = codec, .shapes = {{0, 600}, {0, 5}, {0, 300}}};
    const auto inputs = job.values();
    on_device_ranks(job.ranks, 1, [&](std::uint32_t rank, const auto& transports) {
      RouteRank own(job, transports);
      const auto run = [&](const std::vector<std::size_t>& shards) {
        return own.sum().enqueue({.gradients = own.gradients()}, shards, own.stream());
      };
      for (const std::vector<std::size_t>& shards :
           std::vector<std::vector<std::size_t>>{{}, {3}, {1, 1}, {2, 2}, {1, 1, 1}}) {
        const Status status = run(shards);
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        EXPECT_THAT(status.message(), HasSubstr("shards"));
      }
      Parameters summed;
      expect_ok(own.run(0, inputs[0][rank], summed), "the next call");
      expect_ok(run({0, 3}), "an empty shard");
      expect_cuda(cudaStreamSynchronize(own.stream()));
    });
  }
}

// Loses its peer after some exchanges, in which it receives zeros.
class LosingTransport final : public cuda::StreamTransport {
 public:
  explicit LosingTransport(int exchanges) : left_(exchanges) {}

  std::string_view name() const override { return "losing"; }
  std::uint32_t rank() const override { return 0; }
  std::uint32_t ranks() const override { return 2; }
  Status exchange(std::span<const cuda::StreamTransfer>,
                  std::span<const cuda::StreamTransfer> receives, cudaStream_t stream) override {
    if (left_-- == 0) return {ErrorCode::kPeerLost, "rank 1 is gone"};
    for (const cuda::StreamTransfer& receive : receives) {
      expect_cuda(cudaMemsetAsync(receive.bytes, 0, receive.size, stream));
    }
    return {};
  }
  Status health() override { return failure; }
  void abort(const Status& why) override {
    if (failure.ok()) failure = why;
  }

  Status failure;

 private:
  int left_;
};

TEST_F(DeviceReduceScatterCall, FailsIfAPeerIsLost) {
  struct Loss {
    const char* codec;
    int exchanges;
  };
  // In the statistics, after them, and with residuals.
  for (const auto& [codec, exchanges] :
       {Loss{"waterfill:4", 0}, {"waterfill:4", 2}, {"g_binary+ef", 0}}) {
    LosingTransport transport(exchanges);
    const RouteJob job{.collective = kCollective, .codec = codec, .shapes = {{0, 600}, {0, 500}}};
    RouteRank own(job, {&transport});
    for (int call = 0; call < 2; ++call) {
      Parameters summed;
      const Status status = own.run(0, job.values()[0][0], summed);
      EXPECT_EQ(status.code(), ErrorCode::kPeerLost) << to_string(status);
      EXPECT_EQ(transport.failure.code(), ErrorCode::kPeerLost);
    }
  }
}

Status check(const std::string& codec, Topology topology) {
  return cuda::check_device_collective(
      {.collective = kCollective, .codec = codec, .topology = topology, .host_group_size = 2}, 4);
}

TEST(DeviceReduceScatterRoutes, RejectsWhatDevicesDoNotSupport) {
  for (const char* route : {"waterfill:4", "waterfill:2+ef", "g_binary+ef", "topkc:1", "thc"}) {
    for (const Topology topology : kTopologies) EXPECT_TRUE(check(route, topology).ok()) << route;
  }
  const Status hierarchical = check("waterfill:4", Topology::kHierarchical);
  EXPECT_EQ(hierarchical.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(hierarchical.message(), HasSubstr("'hierarchical' has no CUDA form"));
  EXPECT_EQ(check("waterfill:4", Topology::kTree).code(), ErrorCode::kBadConfig);
  EXPECT_EQ(check("powersgd:2", Topology::kDirect).code(), ErrorCode::kBadConfig);
}

TEST(DeviceReduceScatterRoutes, AreNotHierarchicalByDefault) {
  FabricOptions options{.collective = kCollective, .host_group_size = 8};
  EXPECT_EQ(topology_of(options, options.profile, 16), Topology::kHierarchical);
  EXPECT_EQ(cuda::device_topology_of(options, 16), Topology::kDirect);
  EXPECT_EQ(cuda::device_topology_of(options, 64), Topology::kRing);
  options.topology = Topology::kHierarchical;
  EXPECT_EQ(cuda::device_topology_of(options, 16), Topology::kHierarchical);
  options = {.host_group_size = 8};
  EXPECT_EQ(cuda::device_topology_of(options, 16), Topology::kHierarchical);
}

}  // namespace
}  // namespace nf::test
