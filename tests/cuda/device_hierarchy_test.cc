// The hierarchical all-reduce in device memory yields the bits of the CPU.
#include "cuda/collective/device_hierarchy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/device_collective_case.h"
#include "cuda/device_test.h"
#include "neuron_fabric/codec.h"

namespace nf {
namespace {

using test::DeviceCollectiveCase;

std::vector<DeviceCollectiveCase> cases() {
  struct Shape {
    std::uint32_t ranks;
    std::uint32_t host_group;
  };
  std::vector<DeviceCollectiveCase> made;
  std::vector<std::string> codecs = {"waterfill+width=4", "omnireduce:4"};
  for (const CodecEntry& entry : builtin_codecs()) codecs.emplace_back(entry.example);
  for (const std::string& codec : codecs) {
    // The last two: a single host group, and host groups of one rank.
    for (const auto [ranks, host_group] : {Shape{4, 2}, {6, 2}, {6, 3}, {3, 3}, {3, 1}}) {
      made.push_back({codec, Topology::kHierarchical, ranks, host_group});
    }
    made.push_back({codec, Topology::kHierarchical, 4, 2, DataType::kBfloat16});
  }
  return made;
}

class DeviceHierarchy : public test::OnDevice<testing::TestWithParam<DeviceCollectiveCase>> {};

TEST_P(DeviceHierarchy, MatchesTheCpu) { test::expect_same_as_cpu(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Codecs, DeviceHierarchy, testing::ValuesIn(cases()),
                         [](const auto& test) { return test::name_of(test.param); });

TEST(DeviceHierarchyCheck, RejectsHostGroupsThatDoNotDivideTheRanks) {
  const auto code = [](const std::string& codec, std::uint32_t host_group) {
    return cuda::check_device_collective(
               {.codec = codec, .topology = Topology::kHierarchical, .host_group_size = host_group},
               6)
        .code();
  };
  EXPECT_EQ(code("waterfill:4", 3), ErrorCode::kOk);
  EXPECT_EQ(code("powersgd:2", 3), ErrorCode::kOk);
  EXPECT_EQ(code("waterfill:4", 4), ErrorCode::kBadConfig);
  EXPECT_EQ(code("waterfill:4", 0), ErrorCode::kBadConfig);
  EXPECT_EQ(code("waterfill:3+ef", 3), ErrorCode::kUnsupported);
}

TEST(DeviceCollectiveCheck, RejectsRmsHistories) {
  for (const Topology topology : {Topology::kDirect, Topology::kRing, Topology::kHierarchical}) {
    for (const char* codec : {"waterfill:3+rms", "rotated+width=3+rms"}) {
      const Status status = cuda::check_device_collective(
          {.codec = codec, .topology = topology, .host_group_size = 3}, 6);
      EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << codec << " " << to_string(topology);
      EXPECT_NE(status.message().find("omit +rms"), std::string::npos) << status.message();
    }
  }
}

}  // namespace
}  // namespace nf
