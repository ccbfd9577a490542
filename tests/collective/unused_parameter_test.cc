// A parameter that no rank used has zeros everywhere, and DDP discards its sum: error feedback must
// not send what it keeps of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "collective/all_zero.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/codec.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/spellings.h"

namespace nf {
namespace {

using test::on_all_ranks;

constexpr std::uint32_t kRanks = 4;
constexpr std::uint64_t kUsed = 3;
constexpr std::uint64_t kUnused = 8;
constexpr std::size_t kRows = 20;
constexpr std::size_t kCount = kRows * 60;

// Every codec with error feedback, and powersgd.
std::vector<std::string> with_memory() {
  std::vector<std::string> spellings = {"powersgd:2"};
  for (const std::string& own : test::codec_spellings()) {
    for (const std::string& spelling : {own, own + "+ef"}) {
      const auto codec = make_codec(spelling);
      if (codec && (*codec)->keeps_residual() &&
          std::ranges::find(spellings, spelling) == spellings.end()) {
        spellings.push_back(spelling);
      }
    }
  }
  return spellings;
}

// Two parameters on one rank.
class Job {
 public:
  Job(Transport& transport, const AllReduceOptions& options) : rank_(transport.rank()) {
    auto made = AllReduce::create(transport, options);
    EXPECT_TRUE(made) << to_string(made.status());
    sum_ = std::move(*made);
  }

  // The sum of kUnused, which is zero on this rank if it is not `used`.
  std::vector<float> run(std::uint64_t step, bool used) {
    test::Generator random(10 * step + rank_);
    std::vector<float> first = random.normal(kCount);
    std::vector<float> second = random.normal(kCount);
    if (!used) std::ranges::fill(second, rank_ % 2 == 0 ? 0.0f : -0.0f);
    const std::vector<Gradient> gradients{
        {.parameter = kUsed, .values = Values(first), .rows = kRows},
        {.parameter = kUnused, .values = Values(second), .rows = kRows}};
    const Status status = sum_->run({.step = step, .gradients = gradients, .loss_scale = 8});
    EXPECT_TRUE(status.ok()) << to_string(status);
    return second;
  }

  void forget(std::uint64_t parameter) { sum_->forget(parameter); }
  std::vector<float> kept(std::uint64_t parameter) const {
    for (const Remembered& one : sum_->remembered()) {
      if (one.parameter == parameter && one.what != "basis") return one.values;
    }
    ADD_FAILURE() << "nothing is remembered";
    return {};
  }

 private:
  const std::uint32_t rank_;
  std::unique_ptr<AllReduce> sum_;
};

class Unused : public testing::TestWithParam<std::string> {};

TEST_P(Unused, ParameterKeepsItsResidual) {
  for (const Topology topology : all_topologies()) {
    SCOPED_TRACE(to_string(topology));
    on_all_ranks(kRanks, [&](Transport& transport) {
      Job job(transport, {.codec = GetParam(), .topology = topology, .host_group_size = 2});
      job.run(0, true);
      const std::vector<float> before = job.kept(kUnused);
      const std::vector<float> other = job.kept(kUsed);
      EXPECT_TRUE(all_zero(job.run(1, false)));
      EXPECT_EQ(job.kept(kUnused), before);
      // In groups a rank keeps something of its part of the values only.
      EXPECT_NE(job.kept(kUsed) != other, all_zero(other));
    });
  }
}

// A rank without a gradient of a parameter that others use sends nothing of what it keeps: the
// others' sum is that of a rank that keeps nothing.
TEST_P(Unused, RankSendsNothingOfItsResidual) {
  on_all_ranks(2, [&](Transport& transport) {
    const AllReduceOptions options{.codec = GetParam(), .topology = Topology::kDirect};
    Job job(transport, options);
    Job fresh(transport, options);
    const bool is_first = transport.rank() == 0;
    job.run(0, true);
    EXPECT_FALSE(all_zero(job.kept(kUnused)));
    job.forget(kUsed);
    if (is_first) job.forget(kUnused);  // rank 1 alone keeps something
    EXPECT_EQ(job.run(1, is_first), fresh.run(1, is_first));
  });
}

INSTANTIATE_TEST_SUITE_P(WithMemory, Unused, testing::ValuesIn(with_memory()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace nf
