// A rank that stalls for a moment during the measurement must not look like a slow link or codec.
#include "runtime/link_probe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/host_probe.h"
#include "support/ranks.h"

namespace nf {
namespace {

constexpr std::uint32_t kRanks = 2;

// A transport whose clock advances only with work.
class StoppedClock final : public Transport {
 public:
  explicit StoppedClock(Transport& transport) : transport_(transport) {}
  std::string_view name() const override { return transport_.name(); }
  std::uint32_t rank() const override { return transport_.rank(); }
  std::uint32_t ranks() const override { return transport_.ranks(); }
  Duration now() const override { return now_; }
  Status send(Transfer& transfer) override { return transport_.send(transfer); }
  Status receive(Transfer& transfer) override { return transport_.receive(transfer); }
  Status progress() override { return transport_.progress(); }
  Status wait(Duration deadline) override { return transport_.wait(deadline); }
  void abort(const Status& why) override { transport_.abort(why); }

  void advance(double seconds) {
    now_ += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }

 private:
  Transport& transport_;
  Duration now_{};
};

// Every call takes a known time, and on one rank every third call stalls for half a second.
class StalledProbe final : public Probe {
 public:
  static constexpr double kLatency = 1e-4;
  static constexpr double kBytesPerSecond = 1e9;
  static constexpr double kDenseBytesPerSecond = 5e8;
  static constexpr double kSumSeconds = 0.02;

  StalledProbe(StoppedClock& clock, bool is_stalled, ProbeSize size = HostProbe::kSize)
      : clock_(clock), is_stalled_(is_stalled), size_(size) {}

  Status shift(std::size_t bytes) override {
    most_bytes_ = std::max(most_bytes_, bytes);
    return take(static_cast<double>(bytes) / kBytesPerSecond + kLatency);
  }
  Status sum_dense(std::size_t bytes) override {
    most_bytes_ = std::max(most_bytes_, bytes);
    return take(static_cast<double>(bytes) / kDenseBytesPerSecond + kLatency);
  }
  Status sum_low_bit(const std::string&, std::uint64_t) override { return take(kSumSeconds); }
  ProbeSize size() const override { return size_; }

  double seconds() const { return seconds_; }
  std::size_t most_bytes() const { return most_bytes_; }

 private:
  Status take(double seconds) {
    seconds_ += seconds;
    clock_.advance(seconds + (is_stalled_ && calls_++ % 3 == 0 ? 0.5 : 0));
    return {};
  }

  StoppedClock& clock_;
  const bool is_stalled_;
  const ProbeSize size_;
  std::size_t most_bytes_ = 0;  // of a transfer
  int calls_ = 0;
  double seconds_ = 0;  // without stalls
};

TEST(LinkProbe, IgnoresStalls) {
  std::vector<CodecFigures> codecs(kRanks);
  std::vector<LinkFigures> links(kRanks);
  test::on_all_ranks(kRanks, [&](Transport& transport) {
    StatisticsReducer reducer(transport, 0, std::chrono::seconds(30));
    StoppedClock clock(transport);
    StalledProbe stalled(clock, transport.rank() == 1);
    LinkProbe probe(clock, stalled, reducer);
    const auto link = probe.measure_link();
    ASSERT_TRUE(link) << to_string(link.status());
    links[transport.rank()] = *link;
    const auto codec =
        probe.measure_codec({.codec = "waterfill:4", .topology = Topology::kDirect}, *link);
    ASSERT_TRUE(codec) << to_string(codec.status());
    codecs[transport.rank()] = *codec;
    EXPECT_LT(stalled.seconds(), 0.5);
  });
  const LinkFigures& link = links[0];
  EXPECT_NEAR(link.latency, StalledProbe::kLatency, 1e-5);
  EXPECT_NEAR(link.dense_latency, StalledProbe::kLatency, 1e-5);
  EXPECT_NEAR(link.bytes_per_second, StalledProbe::kBytesPerSecond, 2e7);
  EXPECT_NEAR(link.dense_bytes_per_second, StalledProbe::kDenseBytesPerSecond, 1e7);
  EXPECT_LT(codecs[0].seconds_per_value * HostProbe::kSize.shape.count, StalledProbe::kSumSeconds);
  EXPECT_GT(codecs[0].seconds_per_value, 0);

  EXPECT_EQ(link.latency, links[1].latency);
  EXPECT_EQ(link.dense_latency, links[1].dense_latency);
  EXPECT_EQ(link.bytes_per_second, links[1].bytes_per_second);
  EXPECT_EQ(link.dense_bytes_per_second, links[1].dense_bytes_per_second);
  EXPECT_EQ(codecs[0].seconds_per_value, codecs[1].seconds_per_value);
}

TEST(LinkProbe, SendsNoMoreThanTheMaximum) {
  for (const std::size_t max_bytes : {64 << 10, 1 << 20}) {
    test::on_all_ranks(kRanks, [&](Transport& transport) {
      StatisticsReducer reducer(transport, 0, std::chrono::seconds(30));
      StoppedClock clock(transport);
      StalledProbe transfers(clock, /*is_stalled=*/false,
                             {.shape = HostProbe::kSize.shape, .max_bytes = max_bytes});
      const auto link = LinkProbe(clock, transfers, reducer).measure_link();
      ASSERT_TRUE(link) << to_string(link.status());
      EXPECT_EQ(transfers.most_bytes(), max_bytes);
      EXPECT_NEAR(link->bytes_per_second, StalledProbe::kBytesPerSecond, 2e7);
    });
  }
}

}  // namespace
}  // namespace nf
