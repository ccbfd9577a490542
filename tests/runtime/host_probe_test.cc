// The traffic of a probe matches its shape, because the cost model subtracts the link time for that
// shape.
#include "runtime/host_probe.h"

#include <gtest/gtest.h>

#include "runtime/small_model.h"
#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

// The total traffic of one call of `route`.
std::uint64_t traffic_of(Transport& transport, Collective collective, const char* route,
                         const AllReduceOptions& options, ParameterShape& shape) {
  const Binding binding = test::bind(static_profile(route));
  RouteCollectives sums(transport, binding, collective, options, {});
  test::OwnDenseEngine engine(transport);
  HostProbe probe(transport, engine, sums, collective, options.timeout);
  EXPECT_TRUE(probe.sum_low_bit(route, 0).ok());
  shape = probe.size().shape;
  return sums.traffic(route).total();
}

TEST(HostProbe, SendsTheTrafficOfItsShape) {
  for (const char* route : {"waterfill:4", "g_binary", "powersgd:2"}) {
    test::on_all_ranks(3, [&](Transport& transport) {
      const AllReduceOptions options{.codec = route, .topology = Topology::kRing};
      ParameterShape shape;
      const std::uint64_t sent =
          traffic_of(transport, Collective::kAllReduce, route, options, shape);
      const auto modelled = model_traffic(options, std::span(&shape, 1), 3, transport.rank());
      ASSERT_TRUE(modelled) << modelled.status().message();
      EXPECT_EQ(sent, modelled->bytes) << route;
    });
  }
}

TEST(HostProbe, SendsTheTrafficOfItsShards) {
  for (const char* route : {"waterfill:4", "g_binary"}) {
    test::on_all_ranks(3, [&](Transport& transport) {
      const AllReduceOptions options{.codec = route, .topology = Topology::kDirect};
      ParameterShape shape;
      const std::uint64_t sent =
          traffic_of(transport, Collective::kReduceScatter, route, options, shape);
      const auto modelled = model_reduce_scatter(
          options, std::vector(3, std::vector{shape.count / 3}), transport.rank());
      ASSERT_TRUE(modelled) << modelled.status().message();
      EXPECT_EQ(sent, modelled->bytes) << route;
    });
  }
}

}  // namespace
}  // namespace nf
