// A parameter that no rank uses is zero on all ranks, and DDP discards its sum: error feedback must
// not send its residual.
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

// All codecs with error feedback, and powersgd.
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

  // Returns the sum of kUnused, which is zero on this rank unless `used`.
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
    for (const MemoryEntry& one : sum_->save_memory()) {
      if (one.parameter == parameter && one.kind != "basis") return one.values;
    }
    ADD_FAILURE() << "no memory";
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
      // With host groups, a rank has residuals for its part of the values only.
      EXPECT_NE(job.kept(kUsed) != other, all_zero(other));
    });
  }
}

// A rank without a gradient for a parameter that others use does not send its residual: the sum is
// the same as without a residual on that rank.
TEST_P(Unused, RankDoesNotSendItsResidual) {
  on_all_ranks(2, [&](Transport& transport) {
    const AllReduceOptions options{.codec = GetParam(), .topology = Topology::kDirect};
    Job job(transport, options);
    Job fresh(transport, options);
    const bool is_first = transport.rank() == 0;
    job.run(0, true);
    EXPECT_FALSE(all_zero(job.kept(kUnused)));
    job.forget(kUsed);
    if (is_first) job.forget(kUnused);  // only rank 1 has a residual
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
