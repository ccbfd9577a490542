// An exchange of several codecs takes the latency of one.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "collective/exchange.h"
#include "collective/host_groups.h"
#include "support/generator.h"
#include "transport/virtual_network.h"

namespace nf {
namespace {

constexpr Duration kLatency = std::chrono::microseconds(100);

struct Job {
  Collective collective = Collective::kAllReduce;
  AllReduceOptions options = {};
  std::uint32_t ranks = 8;
};

// One rank with an exchange of these codecs, `count` values each.
struct Rank {
  Rank(VirtualNetwork& network, const Job& job, std::uint32_t rank,
       const std::vector<std::string>& codecs, std::size_t count)
      : transport(network.endpoint(rank)),
        exchange(*transport, job.options, job.collective),
        gradients(codecs.size()),
        shards(job.collective == Collective::kReduceScatter ? job.ranks : 0, 1) {
    for (std::size_t part = 0; part < codecs.size(); ++part) {
      AllReduceOptions options = job.options;
      options.codec = codecs[part];
      parts.push_back(std::move(*ExchangePart::create(options, job.collective, rank, job.ranks)));
      test::Generator random(rank);
      values.push_back(random.normal(count));
      const std::size_t cuts = std::max<std::size_t>(shards.size(), 1);
      for (std::size_t cut = 0; cut < cuts; ++cut) {
        gradients[part].push_back(
            {.parameter = cut,
             .values = Values(std::span(values[part]).subspan(cut * count / cuts, count / cuts))});
      }
      inputs.push_back({.part = parts[part].get(), .gradients = gradients[part], .shards = shards});
    }
    EXPECT_TRUE(exchange.start({}, inputs).ok());
  }

  std::unique_ptr<Transport> transport;
  Exchange exchange;
  std::vector<std::unique_ptr<ExchangePart>> parts;
  std::vector<std::vector<float>> values;
  std::vector<std::vector<Gradient>> gradients;
  std::vector<std::size_t> shards;
  std::vector<Exchange::Input> inputs;
  bool is_done = false;
};

// The virtual time of one exchange.
Duration time_of(const Job& job, const std::vector<std::string>& codecs, std::size_t count,
                 double bytes_per_second) {
  VirtualNetwork network(job.ranks, {.bytes_per_second = bytes_per_second, .latency = kLatency});
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(network, job, rank, codecs, count));
  }
  std::uint32_t done = 0;
  const auto advance = [&](Rank& rank) {
    if (rank.is_done) return;
    const Expected<bool> finished = rank.exchange.advance();
    ASSERT_TRUE(finished) << to_string(finished.status());
    rank.is_done = *finished;
    done += *finished ? 1 : 0;
  };
  for (const auto& rank : ranks) advance(*rank);
  while (done < job.ranks && network.step()) {
    const std::vector<std::uint32_t> ready(network.ready_ranks().begin(),
                                           network.ready_ranks().end());
    for (const std::uint32_t rank : ready) advance(*ranks[rank]);
  }
  EXPECT_EQ(done, job.ranks) << "some ranks wait for each other";
  return network.now();
}

const std::vector<std::string> kOne = {"waterfill:4"};
const std::vector<std::string> kThree = {"waterfill:4", "waterfill:6+ef", "g_binary"};

std::vector<Job> jobs() {
  std::vector<Job> all;
  for (const Topology topology : {Topology::kRing, Topology::kTree, Topology::kDirect,
                                  Topology::kHalvingDoubling, Topology::kHierarchical}) {
    all.push_back({.options = {.topology = topology, .host_group_size = 2}});
  }
  for (const Topology topology : {Topology::kRing, Topology::kDirect, Topology::kHierarchical}) {
    all.push_back({.collective = Collective::kReduceScatter,
                   .options = {.topology = topology, .host_group_size = 2}});
  }
  return all;
}

TEST(VirtualExchange, TakesTheLatencyOfOneCodec) {
  constexpr double kFast = 1e15;
  for (const Job& job : jobs()) {
    SCOPED_TRACE(std::string(to_string(job.collective)) + " " +
                 std::string(to_string(job.options.topology)));
    const auto latencies = [&](const std::vector<std::string>& codecs) {
      return time_of(job, codecs, 10'000, kFast) / kLatency;
    };
    EXPECT_EQ(latencies(kThree), latencies(kOne));
    EXPECT_EQ(latencies({"waterfill:4", "waterfill:6", "g_binary", "mxfp4", "fp32"}),
              latencies(kOne));
  }
}

// Agreement, two rounds of statistics, contributions and sums: 3 + 2 + 2 latencies.
TEST(VirtualExchange, NeedsSevenLatenciesOverDirectOfEight) {
  const Job job{.options = {.topology = Topology::kDirect}};
  EXPECT_EQ(time_of(job, kThree, 10'000, 1e15) / kLatency, 7);
}

// On a slow link, the time is that of the bytes: three thirds take as long as the whole.
TEST(VirtualExchange, TakesTheTimeOfItsBytes) {
  constexpr double kSlow = 25e6;
  const Job job{.options = {.topology = Topology::kDirect}, .ranks = 4};
  constexpr std::size_t kCount = 3 << 18;
  const auto one = time_of(job, {"waterfill:4"}, kCount, kSlow);
  const auto three = time_of(job, {"waterfill:4", "waterfill:4+alpha=0", "waterfill:4+alpha=1"},
                             kCount / 3, kSlow);
  EXPECT_LT(std::chrono::duration<double>(three) / one, 1.03);
}

}  // namespace
}  // namespace nf
