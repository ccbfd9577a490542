// The traffic of a probe matches its shape, because the cost model subtracts the link time for that
// shape.
#include "runtime/host_probe.h"

#include <gtest/gtest.h>

#include "runtime/small_model.h"
#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

TEST(HostProbe, SendsTheTrafficOfItsShape) {
  const Binding binding = test::bind(static_profile("powersgd:2"));
  for (const char* route : {"waterfill:4", "g_binary", "powersgd:2"}) {
    test::on_all_ranks(3, [&](Transport& transport) {
      const AllReduceOptions options{.topology = Topology::kRing};
      RouteCollectives sums(transport, binding, options, {});
      test::OwnDenseEngine engine(transport);
      HostProbe probe(transport, engine, sums, options.timeout);
      const Expected<AllReduce*> sum = sums.find(route);
      ASSERT_TRUE(sum) << sum.status().message();
      ASSERT_TRUE(probe.sum_low_bit(route, 0).ok());
      const ParameterShape shape = probe.shape();
      const auto modelled = model_traffic({.codec = route, .topology = options.topology},
                                          std::span(&shape, 1), 3, transport.rank());
      ASSERT_TRUE(modelled) << modelled.status().message();
      EXPECT_EQ((*sum)->traffic().total(), modelled->bytes) << route;
    });
  }
}

}  // namespace
}  // namespace nf
