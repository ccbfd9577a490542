#include "nf/bench/dense_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace nf::cli {
namespace {

std::vector<std::unique_ptr<DenseRing>> rings_of(const DenseSockets& sockets, std::uint32_t ranks,
                                                 std::size_t values) {
  std::vector<std::unique_ptr<DenseRing>> rings;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    rings.push_back(std::make_unique<DenseRing>(sockets, rank, ranks, values));
  }
  return rings;
}

TEST(DenseRing, SumsForAnyNumberOfRanksAndValues) {
  for (const std::uint32_t ranks : {2u, 3u, 5u}) {
    for (const std::size_t values : {1u, 7u, 1'000'000u}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << values << " values");
      const auto sockets = DenseSockets::create(ranks);
      ASSERT_TRUE(sockets) << sockets.status().message();
      const auto rings = rings_of(*sockets, ranks, values);
      for (int repeat = 0; repeat < 3; ++repeat) {
        for (const auto& ring : rings) ring->start();
        for (const auto& ring : rings) EXPECT_TRUE(ring->finish());
      }
    }
  }
}

TEST(DenseRing, FailsWithoutWaitingIfARankHasLeft) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    const auto sockets = DenseSockets::create(ranks);
    ASSERT_TRUE(sockets) << sockets.status().message();
    auto rings = rings_of(*sockets, ranks, 1000);
    for (std::uint32_t rank = 1; rank < ranks; ++rank) rings[rank]->start();
    rings[0].reset();
    EXPECT_FALSE(rings[1]->finish());
    EXPECT_FALSE(rings[ranks - 1]->finish());
  }
}

}  // namespace
}  // namespace nf::cli
