// Several codecs in one exchange: every part has the bits that it has alone.
#include "collective/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "collective/codec_all_reduce.h"
#include "collective/exchange_cases.h"
#include "support/ranks.h"

namespace nf::test {
namespace {

void expect_same(const std::vector<std::vector<float>>& actual,
                 const std::vector<std::vector<float>>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(same_bits(actual[i], expected[i]));
}

class EveryExchange : public testing::TestWithParam<Case> {};

TEST_P(EveryExchange, GivesEveryPartTheBitsThatItHasAlone) {
  const Case& one = GetParam();
  on_all_ranks(one.ranks, [&](Transport& transport) {
    Together together(transport, one);
    std::vector<std::unique_ptr<CodecAllReduce>> alone;
    for (const std::string& codec : kCodecs) {
      alone.push_back(
          std::move(*CodecAllReduce::create(transport, one.options(codec), one.collective)));
    }
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Status status = together.run(step);
      ASSERT_TRUE(status.ok()) << to_string(status);
      for (std::uint32_t p = 0; p < kCodecs.size(); ++p) {
        SCOPED_TRACE(kCodecs[p] + " in step " + std::to_string(step));
        const PartValues values(one, p, step, transport.rank());
        AllReduceCall call = call_of(step);
        call.gradients = values.gradients();
        const Status done =
            alone[p]->complete(alone[p]->start_shards(call, values.shards()), "alone", step);
        ASSERT_TRUE(done.ok()) << to_string(done);
        expect_same(together.results(p), values.results(one, transport.rank()));
        EXPECT_EQ(together.part(p).save_memory(), alone[p]->save_memory());
      }
    }
  });
}

// Undoes one part of a skipped step, and resumes all of them from their saved memory.
TEST_P(EveryExchange, KeepsTheMemoryOfEveryPart) {
  const Case& one = GetParam();
  on_all_ranks(one.ranks, [&](Transport& transport) {
    Together first(transport, one);
    ASSERT_TRUE(first.run(0).ok());
    std::vector<std::vector<MemoryEntry>> saved;
    for (std::size_t p = 0; p < first.size(); ++p) saved.push_back(first.part(p).save_memory());
    ASSERT_TRUE(first.run(1).ok());
    for (std::size_t p = 0; p < first.size(); ++p) {
      for (const MemoryEntry& entry : saved[p]) first.part(p).undo(entry.parameter);
      EXPECT_EQ(first.part(p).save_memory(), saved[p]) << kCodecs[p];
    }
    Together resumed(transport, one);
    for (std::size_t p = 0; p < first.size(); ++p) {
      const Status status = resumed.part(p).load_memory(saved[p]);
      ASSERT_TRUE(status.ok()) << to_string(status);
    }
    ASSERT_TRUE(first.run(2).ok());
    ASSERT_TRUE(resumed.run(2).ok());
    for (std::size_t p = 0; p < first.size(); ++p) {
      expect_same(resumed.results(p), first.results(p));
      first.part(p).reset();
      EXPECT_THAT(first.part(p).save_memory(), testing::IsEmpty());
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](Case one) {
    one.name = std::string(to_string(one.collective)) + "_" + std::string(to_string(one.topology)) +
               "_" + std::to_string(one.ranks) + "_" + std::string(to_string(one.type)) +
               (one.tile_bytes < 10'000 ? "_small_tiles" : "");
    all.push_back(one);
  };
  for (const std::size_t tile_bytes : {std::size_t{256} << 10, std::size_t{1} << 10}) {
    for (const Topology topology : {Topology::kRing, Topology::kTree, Topology::kDirect,
                                    Topology::kHalvingDoubling, Topology::kEndpoint}) {
      add({.topology = topology, .tile_bytes = tile_bytes});
    }
    add({.topology = Topology::kHierarchical, .host_group_size = 2, .tile_bytes = tile_bytes});
    for (const Topology topology : {Topology::kRing, Topology::kDirect}) {
      add({.collective = Collective::kReduceScatter,
           .topology = topology,
           .tile_bytes = tile_bytes});
    }
    add({.collective = Collective::kReduceScatter,
         .topology = Topology::kHierarchical,
         .host_group_size = 2,
         .tile_bytes = tile_bytes});
  }
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
    for (const std::uint32_t ranks : {1u, 2u, 3u, 5u}) {
      add({.collective = collective, .ranks = ranks});
      add({.collective = collective, .topology = Topology::kRing, .ranks = ranks});
    }
    for (const Topology topology : {Topology::kRing, Topology::kDirect}) {
      add({.collective = collective, .topology = topology, .type = DataType::kBfloat16});
    }
    add({.collective = collective,
         .topology = Topology::kHierarchical,
         .host_group_size = 2,
         .type = DataType::kBfloat16});
    // One host group, and groups of one rank.
    add({.collective = collective,
         .topology = Topology::kHierarchical,
         .ranks = 3,
         .host_group_size = 3});
    add({.collective = collective,
         .topology = Topology::kHierarchical,
         .ranks = 2,
         .host_group_size = 1});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryExchange, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

// Passes everything on, and counts the bytes sent.
class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(Transport& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  std::uint32_t rank() const override { return inner_.rank(); }
  std::uint32_t ranks() const override { return inner_.ranks(); }
  Duration now() const override { return inner_.now(); }
  Status send(Transfer& transfer) override {
    bytes += transfer.bytes.size();
    ++messages;
    return inner_.send(transfer);
  }
  Status receive(Transfer& transfer) override { return inner_.receive(transfer); }
  Status progress() override { return inner_.progress(); }
  Status wait(Duration deadline) override { return inner_.wait(deadline); }
  void abort(const Status& why) override { inner_.abort(why); }

  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;

 private:
  Transport& inner_;
};

TEST_P(EveryExchange, AttributesEveryByteToAPart) {
  const Case& one = GetParam();
  on_all_ranks(one.ranks, [&](Transport& inner) {
    CountingTransport transport(inner);
    Together together(transport, one);
    ASSERT_TRUE(together.run(0).ok());
    std::uint64_t bytes = 0;
    for (std::size_t p = 0; p < together.size(); ++p) {
      bytes += together.part(p).traffic().total();
      if (one.scatters()) {
        EXPECT_EQ(together.part(p).traffic().sums, 0u);
      }
    }
    EXPECT_EQ(bytes, transport.bytes);
  });
}

TEST(Exchange, SendsAsManyMessagesAsOneCodec) {
  const Case one{.ranks = 3};
  const auto messages = [&](const std::vector<std::string>& codecs) {
    std::uint64_t sent = 0;
    on_all_ranks(one.ranks, [&](Transport& inner) {
      CountingTransport transport(inner);
      Together together(transport, one, codecs);
      ASSERT_TRUE(together.run(0).ok());
      if (transport.rank() == 0) sent = transport.messages;
    });
    return sent;
  };
  EXPECT_EQ(messages({"waterfill:4", "waterfill:6", "fp32"}), messages({"waterfill:4"}));
  EXPECT_EQ(messages(kCodecs), messages({"waterfill:4"}));
}

}  // namespace
}  // namespace nf::test
