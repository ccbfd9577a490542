// All-reduce in device memory yields the bits of the CPU.
#include "cuda/collective/device_all_reduce.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/device_collective_case.h"
#include "cuda/device_test.h"
#include "neuron_fabric/codec.h"
#include "support/spellings.h"

namespace nf {
namespace {

using test::DeviceCollectiveCase;

std::vector<DeviceCollectiveCase> cases(const std::vector<std::string>& codecs,
                                        const std::vector<Topology>& topologies,
                                        const std::vector<std::uint32_t>& ranks,
                                        DataType type = DataType::kFloat32) {
  std::vector<DeviceCollectiveCase> made;
  for (const std::string& codec : codecs) {
    for (const Topology topology : topologies) {
      for (const std::uint32_t n : ranks) made.push_back({codec, topology, n, 0, type});
    }
  }
  return made;
}

class DeviceAllReduce : public test::OnDevice<testing::TestWithParam<DeviceCollectiveCase>> {};

TEST_P(DeviceAllReduce, MatchesTheCpu) { test::expect_same_as_cpu(GetParam()); }

std::string case_name(const testing::TestParamInfo<DeviceCollectiveCase>& test) {
  return test::name_of(test.param);
}

// The example of every codec, and options that change the plan.
std::vector<std::string> examples_and_variants() {
  std::vector<std::string> codecs = {"waterfill:4+alpha=1", "waterfill:5+flat", "waterfill+width=4",
                                     "rotated+width=3",     "omnireduce:4",     "topkc:4",
                                     "topkc:1+block=1024"};
  for (const CodecEntry& entry : builtin_codecs()) codecs.emplace_back(entry.example);
  return codecs;
}

INSTANTIATE_TEST_SUITE_P(Codecs, DeviceAllReduce,
                         testing::ValuesIn(cases(examples_and_variants(),
                                                 {Topology::kDirect, Topology::kRing}, {2, 3, 4})),
                         case_name);
// A rank receives messages of several layouts, and adds or merges them one by one.
INSTANTIATE_TEST_SUITE_P(OneByOne, DeviceAllReduce,
                         testing::ValuesIn(cases(examples_and_variants(),
                                                 {Topology::kTree, Topology::kHalvingDoubling},
                                                 {4, 5})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Signs, DeviceAllReduce,
                         testing::ValuesIn(cases({"marsit", "g_binary+majority"},
                                                 {Topology::kDirect, Topology::kTree}, {4, 7})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(ManyRanks, DeviceAllReduce,
                         testing::ValuesIn(cases({"waterfill:4", "dynamiq:5", "omnireduce:4",
                                                  "thc"},
                                                 {Topology::kDirect, Topology::kRing,
                                                  Topology::kTree, Topology::kHalvingDoubling},
                                                 {8})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Bfloat16, DeviceAllReduce,
                         testing::ValuesIn(cases({"waterfill:4", "rotated:3", "mxfp8", "fp32",
                                                  "g_binary"},
                                                 {Topology::kDirect, Topology::kRing,
                                                  Topology::kTree, Topology::kEndpoint},
                                                 {5}, DataType::kBfloat16)),
                         case_name);
// Every step adds the residuals of the step before.
std::vector<std::string> routes_with_feedback() {
  return test::codec_spellings([](const Codec& codec) { return codec.keeps_residual(); });
}
const std::vector<Topology> kTopologies = {Topology::kDirect, Topology::kRing, Topology::kTree,
                                           Topology::kHalvingDoubling};
INSTANTIATE_TEST_SUITE_P(Feedback, DeviceAllReduce,
                         testing::ValuesIn(cases(routes_with_feedback(), kTopologies, {2, 3, 5})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(FeedbackOfBfloat16, DeviceAllReduce,
                         testing::ValuesIn(cases(routes_with_feedback(), kTopologies, {2, 3, 5},
                                                 DataType::kBfloat16)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(FeedbackOfFloat16, DeviceAllReduce,
                         testing::ValuesIn(cases({"waterfill:1+ef", "waterfill+width=4+ef",
                                                  "waterfill:4+ef+flat", "g_binary+ef+majority"},
                                                 {Topology::kDirect, Topology::kEndpoint}, {4},
                                                 DataType::kFloat16)),
                         case_name);
// More messages than one kernel adds.
INSTANTIATE_TEST_SUITE_P(MoreThanOneKernel, DeviceAllReduce,
                         testing::ValuesIn(cases({"waterfill+width=4", "rotated+width=4",
                                                  "g_binary", "g_binary+ef"},
                                                 {Topology::kDirect}, {67})),
                         case_name);

}  // namespace
}  // namespace nf
