#include "cxl/trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "cxl/traffic.h"
#include "support/generator.h"

namespace nf::cxl {
namespace {

constexpr char kBegin[] = "nf_cxl_trace 1\ndevice 8 64 4 1024\n";

std::string data(char digit) { return std::string(128, digit); }

TEST(Trace, RunsAsDocumented) {
  const std::string text = std::string(kBegin) +
                           "# two workers, one line\n"
                           "enable 0 g_binary 2 1000 1 6 0\n"
                           "w 0 1000 " +
                           data('f') +
                           "\n"
                           "w 0 1040 " +
                           data('f') +
                           "\n"
                           "\n"
                           "r 3 1080\n"
                           "r 3 10c0\n"
                           "clear 0\n"
                           "ready 0010\n"
                           "r 2 1080\n"
                           "disable 0\n"
                           "clear 0\n";
  const Expected<Trace> trace = parse_trace(text);
  ASSERT_TRUE(trace) << trace.status().message();
  EXPECT_EQ(print_answers(run_trace(*trace)),
            "nf_cxl_answers 1\n"
            "e 0\n"
            "a 0 5 0 0 " +
                data('0') +
                "\n"
                "a 1 6 0 1 " +
                data('0') +
                "\n"
                "a 3 8 0 0 " +
                data('0') +
                "\n"
                "a 4 9 0 0 " +
                data('f') +
                "\n"
                "e 0\n"
                "a 2 10 4 0 " +
                data('0') +
                "\n"
                "e 0\n"
                "e 6\n");
}

TEST(Trace, ReadsWhatItPrints) {
  for (const Mode mode : kModes) {
    const Trace trace = random_traffic({.mode = mode, .workers = 5, .lines = 20, .rounds = 2});
    const Expected<Trace> again = parse_trace(print_trace(trace));
    ASSERT_TRUE(again) << again.status().message();
    EXPECT_EQ(again->device, trace.device);
    EXPECT_EQ(again->items, trace.items);
  }
}

TEST(Trace, ReportsTheInvalidLine) {
  const auto error = [](const std::string& text) {
    const Expected<Trace> trace = parse_trace(text, "file");
    EXPECT_FALSE(trace) << text;
    EXPECT_EQ(trace.status().code(), ErrorCode::kBadConfig);
    return trace.status().message();
  };
  EXPECT_EQ(error(""),
            "file: not a trace: the first lines must be 'nf_cxl_trace 1' and 'device ...'");
  EXPECT_EQ(error("nf_cxl_trace 2\n"), "file:1: expected 'nf_cxl_trace 1'");
  EXPECT_EQ(error("nf_cxl_trace 1\ndevice 8 64 4\n"),
            "file:2: expected 'device PLANES MAX_WORKERS REGIONS RECORDS'");
  EXPECT_EQ(error("nf_cxl_trace 1\ndevice 8 65 4 1\n").substr(0, 27),
            "file:2: device out of range");
  const std::string begin(kBegin);
  EXPECT_EQ(error(begin + "ready 000\n"),
            "file:3: expected 'ready' and a pattern of 0 and 1 with at least one 1");
  EXPECT_EQ(error(begin + "\n#\nenable 0 g_trinary 2 0 1 6 0\n"),
            "file:5: unknown mode 'g_trinary'; expected identity, fp32, g_binary or g_ternary");
  EXPECT_EQ(error(begin + "enable 0 g_binary 2 0 1 6\n"),
            "file:3: expected 'enable REGION MODE WORKERS BASE LENGTH STRIDE STORE'");
  EXPECT_EQ(error(begin + "clear\n"), "file:3: expected 'clear REGION'");
  EXPECT_EQ(error(begin + "r 0\n"), "file:3: expected 'r CYCLE ADDRESS'");
  EXPECT_EQ(error(begin + "r -1 0\n"), "file:3: expected 'r CYCLE ADDRESS'");
  EXPECT_EQ(error(begin + "r 99999999999999999999 0\n"), "file:3: expected 'r CYCLE ADDRESS'");
  EXPECT_EQ(error(begin + "r 281474976710657 0\n"), "file:3: cycles are at most 2^48");
  EXPECT_EQ(error(begin + "r 0 1000000000000\n"), "file:3: addresses are below 2^48");
  EXPECT_TRUE(parse_trace(begin + "clear 255\nr 0 ffffffffffff\n", "file"));
  EXPECT_EQ(error(begin + "clear 256\n"), "file:3: regions are below 256");
  EXPECT_EQ(error(begin + "enable 512 g_binary 2 0 1 6 0\n"), "file:3: regions are below 256");
  EXPECT_EQ(error(begin + "w 0 0 00\n"), "file:3: data are 128 hexadecimal digits");
  EXPECT_EQ(error(begin + "w 0 0 " + data('g') + "\n"), "file:3: data are 128 hexadecimal digits");
  EXPECT_EQ(error(begin + "ready " + std::string(1025, '1') + "\n"),
            "file:3: a ready pattern has at most 1024 characters");
  EXPECT_EQ(error(begin + "x 0 0\n"),
            "file:3: unknown item 'x'; expected ready, enable, clear, disable, w or r");
}

TEST(Trace, LimitsTheMemoryOfRegions) {
  const auto status = [](std::string_view items) {
    return parse_trace(fmt::format("nf_cxl_trace 1\ndevice 8 64 4 16777216\n{}", items), "file")
        .status();
  };
  // 2^24 lines of 7 planes and a tag.
  EXPECT_EQ(
      status("enable 0 g_binary 64 0 16777216 30 0\n").message(),
      "file:3: the regions of this trace need 7424 MiB with 16777216 lines of 64 workers here; "
      "the limit is 1024 MiB: enable fewer lines");
  EXPECT_TRUE(status("enable 0 identity 1 0 8388608 29 0\n").ok());
  // The memory of all regions counts, but that of one region only once.
  EXPECT_TRUE(status("enable 0 identity 1 0 8388608 29 0\ndisable 0\n"
                     "enable 0 identity 1 0 8388608 29 0\n")
                  .ok());
  EXPECT_FALSE(status("enable 0 identity 1 0 8388608 29 0\ndisable 0\n"
                      "enable 1 identity 1 0 8388608 29 0\n")
                   .ok());
  // The device rejects these, so they need no memory.
  EXPECT_TRUE(status("enable 0 fp32 64 0 16777217 30 0\n").ok());
  EXPECT_TRUE(status("enable 4 fp32 64 0 16777216 30 0\n").ok());
  EXPECT_TRUE(status("enable 0 fp32 65 0 16777216 30 0\n").ok());
}

TEST(Trace, LimitsTheNumberOfLines) {
  const std::string text = kBegin + std::string(kMaxTraceLines - 2, '\n');
  EXPECT_TRUE(parse_trace(text));
  EXPECT_EQ(parse_trace(text + "\n", "file").status().message(),
            "file: 4194305 lines; a trace has at most 4194304: split it");
}

TEST(Trace, RandomTrafficHasAtMostMaxLines) {
  for (const Mode mode : kModes) {
    for (const std::uint32_t faults : {0u, 99u}) {
      const TrafficOptions options{
          .mode = mode, .workers = 5, .lines = 20, .rounds = 3, .fault_percent = faults};
      const std::uint64_t lines = random_traffic(options).items.size() + 2;
      EXPECT_LE(lines, max_lines(options));
      EXPECT_GE(lines, max_lines(options) / 2);
    }
  }
}

TEST(Trace, AcceptsOrRejectsArbitraryBytes) {
  nf::test::Generator generator(13);
  const std::string valid =
      print_trace(random_traffic({.mode = Mode::kGTernary, .workers = 3, .lines = 6}));
  int accepted = 0;
  for (int round = 0; round < nf::test::rounds_of(500); ++round) {
    std::string text = valid;
    // Not in the first lines, which configure the device.
    for (std::uint64_t i = generator.below(4); i < 4; ++i) {
      text[60 + generator.below(text.size() - 60)] = static_cast<char>(generator.below(128));
    }
    const Expected<Trace> trace = parse_trace(text);
    if (!trace) continue;
    ++accepted;
    EXPECT_LE(run_trace(*trace).size(), trace->items.size());
  }
  EXPECT_GT(accepted, 10);
}

TEST(Trace, AnswersDoNotDependOnTheHandshakes) {
  for (const Mode mode : kModes) {
    TrafficOptions options{.mode = mode, .workers = 9, .lines = 50, .rounds = 2};
    const std::vector<TraceAnswer> slow = run_trace(random_traffic(options));
    Trace trace = random_traffic(options);
    for (TraceItem& item : trace.items) {
      item.cycle = 0;
      if (item.kind == TraceItem::Kind::kReady) item.ready = "1";
    }
    const std::vector<TraceAnswer> fast = run_trace(trace);
    ASSERT_EQ(slow.size(), fast.size());
    std::uint64_t rejected = 0;
    for (std::size_t i = 0; i < slow.size(); ++i) {
      ASSERT_EQ(slow[i].answer, fast[i].answer) << i;
      ASSERT_GE(slow[i].answered - slow[i].taken, slow[i].is_request ? 5u : 0u);
      rejected += slow[i].answer.fault != Fault::kOk ? 1 : 0;
    }
    EXPECT_GT(rejected, slow.size() / 50);
    EXPECT_LT(rejected, slow.size() / 5);
  }
}

}  // namespace
}  // namespace nf::cxl
