// The bytes that a reduce-scatter sends follow from the sizes of the shards.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "collective/agreement.h"
#include "collective/traffic_model.h"
#include "neuron_fabric/wire_frame.h"
#include "support/generator.h"
#include "support/shards.h"
#include "support/spellings.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::Shards;
using test::ShardViews;

// Counts the bytes that are sent to each rank.
class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(Transport& wrapped) : wrapped_(wrapped), sent_(wrapped.ranks()) {}

  std::string_view name() const override { return wrapped_.name(); }
  std::uint32_t rank() const override { return wrapped_.rank(); }
  std::uint32_t ranks() const override { return wrapped_.ranks(); }
  Duration now() const override { return wrapped_.now(); }
  Status send(Transfer& transfer) override {
    sent_[transfer.peer] += transfer.bytes.size();
    return wrapped_.send(transfer);
  }
  Status receive(Transfer& transfer) override { return wrapped_.receive(transfer); }
  Status progress() override { return wrapped_.progress(); }
  Status wait(Duration deadline) override { return wrapped_.wait(deadline); }
  void abort(const Status& why) override { wrapped_.abort(why); }

  std::uint64_t sent_to(std::uint32_t rank) const { return sent_[rank]; }

 private:
  Transport& wrapped_;
  std::vector<std::uint64_t> sent_;
};

Shards random_values(std::uint32_t rank, const std::vector<std::size_t>& sizes) {
  test::Generator random(rank + 1);
  Shards shards;
  for (const std::size_t size : sizes) shards.push_back({random.mixture(size)});
  return shards;
}

// The traffic of one rank: as counted by the call, and by receiver.
struct Sent {
  Traffic traffic;
  std::vector<std::uint64_t> to;
};

std::vector<Sent> sent_by_all(const AllReduceOptions& options,
                              const std::vector<std::size_t>& sizes) {
  std::vector<Sent> sent(sizes.size());
  on_all_ranks(static_cast<std::uint32_t>(sizes.size()), [&](Transport& transport) {
    CountingTransport counting(transport);
    const auto sum = ReduceScatter::create(counting, options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    Shards values = random_values(transport.rank(), sizes);
    const Status status = (*sum)->run({.shards = ShardViews(values).shards()});
    ASSERT_TRUE(status.ok()) << to_string(status);
    Sent& own = sent[transport.rank()];
    own.traffic = (*sum)->traffic();
    for (std::uint32_t to = 0; to < sizes.size(); ++to) own.to.push_back(counting.sent_to(to));
  });
  return sent;
}

// A message of waterfill:4 that holds a whole parameter of n = 256 k values: 4 bits per value, less
// the statistics, and the room for two slices.
std::uint64_t waterfill_message(std::uint64_t values) {
  return kFrameHeaderBytes + values / 2 - 4 * (values / 256) + 32;
}

TEST(ReduceScatterTraffic, IsPredictedExactly) {
  const std::vector<std::vector<std::size_t>> all = {
      {4000, 5121, 700, 0, 33, 2560}, {100, 0, 0, 9000}, {0, 0}, {1}, {700, 300, 20'000}};
  for (const std::string& codec : test::codec_spellings()) {
    for (const Topology topology : {Topology::kDirect, Topology::kRing, Topology::kHierarchical}) {
      for (const std::vector<std::size_t>& sizes : all) {
        const auto ranks = static_cast<std::uint32_t>(sizes.size());
        const AllReduceOptions options{.codec = codec,
                                       .topology = topology,
                                       .host_group_size = ranks % 2 == 0 ? 2u : 1u,
                                       .tile_bytes = 1500};
        SCOPED_TRACE(testing::Message()
                     << codec << " over " << to_string(topology) << " among " << ranks);
        std::vector<std::vector<std::size_t>> shards;
        for (const std::size_t size : sizes) shards.push_back({size});
        const auto sent = sent_by_all(options, sizes);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const auto predicted = model_reduce_scatter(options, shards, rank);
          ASSERT_TRUE(predicted) << to_string(predicted.status());
          EXPECT_EQ(sent[rank].traffic.total(), predicted->bytes) << rank;
          EXPECT_EQ(std::accumulate(sent[rank].to.begin(), sent[rank].to.end(), std::uint64_t{0}),
                    predicted->bytes);
        }
      }
    }
  }
}

TEST(ReduceScatterTraffic, IsByDefaultThatOfTheRankThatSendsTheMost) {
  const AllReduceOptions options{.codec = "waterfill:4", .topology = Topology::kDirect};
  const std::vector<std::vector<std::size_t>> shards = {{50'000}, {20'000, 10'000}, {0}};
  std::uint64_t most = 0;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto one = model_reduce_scatter(options, shards, rank);
    ASSERT_TRUE(one) << to_string(one.status());
    most = std::max(most, one->bytes);
  }
  const auto predicted = model_reduce_scatter(options, shards);
  ASSERT_TRUE(predicted) << to_string(predicted.status());
  EXPECT_EQ(predicted->bytes, most);
  EXPECT_GT(predicted->bytes, model_reduce_scatter(options, shards, 0)->bytes);
}

TEST(ReduceScatterTraffic, HasHalfOfTheHopsOfAnAllReduce) {
  const std::vector<std::vector<std::size_t>> shards(8, {4096});
  const auto hops = [&](const char* codec, Topology topology) {
    const auto predicted =
        model_reduce_scatter({.codec = codec, .topology = topology, .host_group_size = 2}, shards);
    EXPECT_TRUE(predicted) << to_string(predicted.status());
    return predicted ? predicted->hops : 0;
  };
  // Three rounds of agreement among eight ranks, two hops of statistics.
  EXPECT_EQ(hops("fp32", Topology::kDirect), 3u + 1);
  EXPECT_EQ(hops("fp32", Topology::kRing), 3u + 7);
  EXPECT_EQ(hops("fp32", Topology::kHierarchical), 3u + 1 + 1);
  EXPECT_EQ(hops("waterfill:4", Topology::kDirect), 3u + 2 + 1);
  EXPECT_EQ(model_reduce_scatter({.topology = Topology::kTree}, shards).status().code(),
            ErrorCode::kBadConfig);
  EXPECT_EQ(model_reduce_scatter({.topology = Topology::kHierarchical}, shards).status().code(),
            ErrorCode::kBadConfig);
}

TEST(ReduceScatterTraffic, IsTheReduceHalfOverDirectAndRing) {
  const std::vector<std::size_t> sizes = {1000, 0, 300, 17};
  for (const Topology topology : {Topology::kDirect, Topology::kRing}) {
    const auto sent = sent_by_all({.codec = "fp32", .topology = topology}, sizes);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      std::uint64_t payload = 0;  // each rank sends every shard but its own once
      for (std::uint32_t shard = 0; shard < 4; ++shard) {
        if (shard != rank && sizes[shard] > 0) payload += kFrameHeaderBytes + 4 * sizes[shard];
      }
      EXPECT_EQ(sent[rank].traffic.payload, payload) << rank;
      EXPECT_EQ(sent[rank].traffic.sums, 0u);
      EXPECT_EQ(sent[rank].traffic.statistics, 0u);
      EXPECT_EQ(sent[rank].traffic.agreement, Agreement::bytes_to_send(4));
    }
  }
}

TEST(ReduceScatterTraffic, FollowsFromTheBudgetOfEachShard) {
  const std::vector<std::size_t> sizes = {4096, 2048, 0, 8192};
  const auto sent = sent_by_all({.codec = "waterfill:4", .topology = Topology::kDirect}, sizes);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    std::uint64_t payload = 0;
    for (std::uint32_t shard = 0; shard < 4; ++shard) {
      if (shard != rank && sizes[shard] > 0) payload += waterfill_message(sizes[shard]);
    }
    EXPECT_EQ(sent[rank].traffic.payload, payload) << rank;
    // 56 super-groups, 14 in each rank's part: its own of three parts, and one combined part
    // thrice.
    EXPECT_EQ(sent[rank].traffic.statistics, 2 * 3 * (kFrameHeaderBytes + 4 * 14)) << rank;
  }
}

// Half of the payload of an all-reduce with the same codec and the same chunks. A tile of the
// all-reduce has room for one more granule; a shard in a single tile does not need it.
TEST(ReduceScatterTraffic, IsHalfOfAnAllReduce) {
  constexpr std::size_t kShard = 64 * 256;
  for (const char* codec : {"fp32", "bf16", "waterfill:4+flat", "waterfill:4", "dynamiq:5"}) {
    for (const Topology topology : {Topology::kDirect, Topology::kRing}) {
      const AllReduceOptions options{.codec = codec, .topology = topology};
      const auto sent = sent_by_all(options, std::vector<std::size_t>(4, kShard));
      on_all_ranks(4, [&](Transport& transport) {
        const auto sum = AllReduce::create(transport, options);
        auto values = random_values(transport.rank(), {4 * kShard});
        const auto gradients = test::gradients_of(values.front());
        ASSERT_TRUE((*sum)->run({.gradients = gradients}).ok());
        const Traffic whole = (*sum)->traffic();
        const Traffic& half = sent[transport.rank()].traffic;
        EXPECT_LE(2 * half.payload, whole.payload) << codec << " over " << to_string(topology);
        EXPECT_GE(2 * half.payload, whole.payload - whole.payload / 16) << codec;
        EXPECT_EQ(half.statistics, whole.statistics);
      });
    }
  }
}

// Two hosts of two ranks. A rank sends only the shard of its counterpart to the other host.
TEST(ReduceScatterTraffic, CrossesHostsWithOneShardPerPosition) {
  const std::vector<std::size_t> sizes = {4096, 2048, 2048, 8192};
  const auto sent = sent_by_all(
      {.codec = "waterfill:4", .topology = Topology::kHierarchical, .host_group_size = 2}, sizes);
  const std::uint64_t description = Agreement::bytes_to_send(4) / Agreement::rounds(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const std::uint32_t counterpart = (rank + 2) % 4;
    const std::uint32_t neighbour = rank ^ 1u;
    const std::uint32_t other = neighbour ^ 2u;
    // The statistics of both shards of this position, half of them in each rank's part.
    const std::uint64_t groups = (sizes[rank] + sizes[counterpart]) / 256;
    const std::uint64_t own_part = rank < 2 ? groups - groups / 2 : groups / 2;
    const std::uint64_t statistics = 2 * kFrameHeaderBytes + 4 * (groups - own_part) + 4 * own_part;
    // In the agreement, rank r sends to r + 1 and r + 2.
    EXPECT_EQ(sent[rank].to[counterpart],
              description + statistics + waterfill_message(sizes[counterpart]))
        << rank;
    EXPECT_EQ(sent[rank].to[other], other == (rank + 1) % 4 ? description : 0) << rank;
    // FP32 values of both shards of the neighbour's position, in one message.
    const std::uint64_t inside = kFrameHeaderBytes + 4 * (sizes[neighbour] + sizes[other]);
    const std::uint64_t agreed = neighbour == (rank + 1) % 4 ? description : 0;
    EXPECT_EQ(sent[rank].to[neighbour], inside + agreed) << rank;
  }
}

// Tiles of a shard overlap; their number follows from the shard alone.
TEST(ReduceScatterTraffic, CutsEachShardIntoItsOwnTiles) {
  const std::vector<std::size_t> sizes = {10'000, 2'500, 100, 0};
  const auto sent =
      sent_by_all({.codec = "fp32", .topology = Topology::kDirect, .tile_bytes = 4096}, sizes);
  const std::uint64_t messages[] = {10, 3, 1, 0};
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    std::uint64_t payload = 0;
    for (std::uint32_t shard = 0; shard < 4; ++shard) {
      if (shard != rank) payload += messages[shard] * kFrameHeaderBytes + 4 * sizes[shard];
    }
    EXPECT_EQ(sent[rank].traffic.payload, payload) << rank;
  }
}

}  // namespace
}  // namespace nf
