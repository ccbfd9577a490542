// SharedReducer between threads and between processes.
#include "neuron_fabric/shared_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>

#include "cxl/read_out.h"
#include "cxl/trace.h"
#include "support/generator.h"

namespace nf {
namespace {

using nf::test::Generator;
using testing::HasSubstr;
using Message = std::vector<std::byte>;

std::string unique_name() {
  static std::atomic<int> count = 0;
  return "test_" + std::to_string(getpid()) + "_" + std::to_string(count++);
}

Message encoded(const Codec& codec, const Slice& slice, std::uint32_t rank) {
  Generator generator(100 + rank + slice.step);
  const std::vector<float> values = generator.mixture(slice.count);
  Message message(codec.encoded_size(slice, 1));
  EXPECT_TRUE(codec.encode(slice, {.encoder = rank}, std::span(values), message).ok());
  return message;
}

// All ranks' messages merged by the codec, in rank order from `first` on.
Message merged(const Codec& codec, const Slice& slice, std::uint32_t first) {
  Message sum = encoded(codec, slice, first);
  for (std::uint32_t k = 1; k < slice.ranks; ++k) {
    Message next(codec.encoded_size(slice, k + 1));
    const Message own = encoded(codec, slice, (first + k) % slice.ranks);
    EXPECT_TRUE(codec
                    .merge(slice, {.encoder = first, .contributions = k}, sum,
                           {.encoder = (first + k) % slice.ranks}, own, first, next)
                    .ok());
    sum = std::move(next);
  }
  return sum;
}

void run_threads(std::uint32_t ranks, const std::function<void(SharedReducerOptions)>& work) {
  const std::string name = unique_name();
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([=] { work({.name = name, .rank = rank, .ranks = ranks}); });
  }
}

constexpr std::size_t kCounts[] = {1, 5, 320, 512, 5121, 20'000};

void sum_like_the_codec(const std::string& spelling, SharedReducerOptions options,
                        const std::string& record = {}) {
  const auto codec = make_codec(spelling);
  ASSERT_TRUE(codec);
  const auto reducer = SharedReducer::join(options);
  ASSERT_TRUE(reducer) << reducer.status().message();
  ASSERT_TRUE(record.empty() || (*reducer)->record(record, 300).ok());
  for (std::uint64_t step = 0; step < 4; ++step) {
    std::vector<SharedMessage> messages;
    std::vector<Message> owns;
    std::vector<Message> sums;
    for (std::size_t i = 0; i < std::size(kCounts); ++i) {
      const Slice slice{.step = step, .count = kCounts[i], .ranks = options.ranks};
      owns.push_back(encoded(**codec, slice, options.rank));
      sums.emplace_back((*codec)->encoded_size(slice, options.ranks), std::byte{0xee});
      messages.push_back({.slice = slice,
                          .own = {},
                          .sum = {},
                          .first_rank = static_cast<std::uint32_t>((step + i) % options.ranks)});
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      messages[i].own = owns[i];
      messages[i].sum = sums[i];
    }
    const Status status = (*reducer)->sum(**codec, messages);
    ASSERT_TRUE(status.ok()) << status.message();
    for (const SharedMessage& message : messages) {
      const Message expected = merged(**codec, message.slice, message.first_rank);
      ASSERT_EQ(Message(message.sum.begin(), message.sum.end()), expected)
          << spelling << ", " << message.slice.count << " values, " << options.ranks << " ranks";
    }
  }
  EXPECT_GT((*reducer)->bytes_written(), 0u);
}

TEST(SharedReducer, SumsLikeTheCodecAmongThreads) {
  for (const std::string spelling : {"g_binary", "g_ternary", "g_ternary+tau=0.3"}) {
    for (const std::uint32_t ranks : {1u, 2u, 4u, 7u}) {
      run_threads(ranks, [&](const SharedReducerOptions& options) {
        sum_like_the_codec(spelling, options);
      });
    }
  }
}

TEST(SharedReducer, AddsFp32InRankOrder) {
  run_threads(3, [](const SharedReducerOptions& options) {
    const auto codec = make_codec("fp32");
    const auto reducer = SharedReducer::join(options);
    ASSERT_TRUE(codec);
    ASSERT_TRUE(reducer) << reducer.status().message();
    const Slice slice{.count = 1003, .ranks = 3};
    std::vector<std::vector<float>> values;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      Generator generator(50 + rank);
      values.push_back(generator.mixture(slice.count));
    }
    std::vector<float> sum(slice.count);
    const SharedMessage message{.slice = slice,
                                .own = std::as_bytes(std::span(values[options.rank])),
                                .sum = std::as_writable_bytes(std::span(sum)),
                                .first_rank = 1};
    ASSERT_TRUE((*reducer)->sum(**codec, std::span(&message, 1)).ok());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_EQ(sum[i], (values[1][i] + values[2][i]) + values[0][i]);
    }
  });
}

TEST(SharedReducer, RecordsATraceThatThePipelineAnswersWithoutFaults) {
  const std::string path = testing::TempDir() + unique_name() + ".trace";
  run_threads(4, [&](const SharedReducerOptions& options) {
    sum_like_the_codec("g_ternary", options, path);
  });
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Expected<cxl::Trace> trace = cxl::parse_trace(text, path);
  ASSERT_TRUE(trace) << trace.status().message();
  std::uint64_t writes = 0;
  for (const cxl::TraceItem& item : trace->items) writes += item.request.is_write ? 1 : 0;
  EXPECT_LE(writes, 300u);
  EXPECT_GT(writes, 200u);
  std::uint64_t complete = 0;
  for (const cxl::TraceAnswer& answer : cxl::run_trace(*trace)) {
    ASSERT_EQ(answer.answer.fault, cxl::Fault::kOk);
    complete += answer.answer.complete ? 1 : 0;
  }
  EXPECT_EQ(complete, writes / 4);
  std::remove(path.c_str());
}

// Starts one process per rank and returns their exit codes.
std::vector<int> run_processes(std::uint32_t ranks,
                               const std::function<int(SharedReducerOptions)>& work) {
  const std::string name = unique_name();
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(work({.name = name, .rank = rank, .ranks = ranks}));
    children.push_back(child);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status));
  }
  return codes;
}

TEST(SharedReducer, SumsLikeTheCodecAmongProcesses) {
  const std::vector<int> codes = run_processes(4, [](const SharedReducerOptions& options) {
    sum_like_the_codec("g_binary", options);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(codes, std::vector<int>(4, 0));
}

Status sum_zeros(SharedReducer& reducer, std::uint32_t ranks, std::uint64_t step = 0) {
  const auto codec = make_codec("g_binary");
  const Slice slice{.step = step, .count = 1000, .ranks = ranks};
  const Message own((*codec)->encoded_size(slice, 1));
  Message sum((*codec)->encoded_size(slice, ranks));
  const SharedMessage message{.slice = slice, .own = own, .sum = sum};
  return reducer.sum(**codec, std::span(&message, 1));
}

TEST(SharedReducer, ReportsADeadRankToTheOthers) {
  const std::vector<int> codes = run_processes(3, [](SharedReducerOptions options) {
    const auto reducer = SharedReducer::join(options);
    if (!reducer || !sum_zeros(**reducer, 3).ok()) return 1;
    if (options.rank == 1) _exit(7);  // without a shutdown
    const Status status = sum_zeros(**reducer, 3);
    if (status.code() != ErrorCode::kPeerLost) return 2;
    if (status.message().find("rank 1 is gone") == std::string::npos) return 3;
    return sum_zeros(**reducer, 3).code() == ErrorCode::kPeerLost ? 0 : 4;  // the error persists
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 7, 0}));
}

TEST(SharedReducer, ReportsAFailedTraceWriteToAllRanks) {
  const std::string path = testing::TempDir() + unique_name() + ".trace";
  const std::vector<int> codes = run_processes(2, [&](const SharedReducerOptions& options) {
    const auto reducer = SharedReducer::join(options);
    if (!reducer || !(*reducer)->record(path, 300).ok()) return 1;
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 256, .rlim_max = 256};  // bytes per file: the title fits
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const Status status = sum_zeros(**reducer, 2);
    if (status.code() != ErrorCode::kBadConfig) return 3;
    return status.message().find("cannot write " + path) != std::string::npos ? 0 : 4;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
  std::remove(path.c_str());
  const auto reducer = SharedReducer::join({.name = unique_name()});
  ASSERT_TRUE(reducer) << reducer.status().message();
  EXPECT_EQ((*reducer)->record("/dev/full", 300).code(), ErrorCode::kBadConfig);
}

TEST(SharedReducer, ReportsDifferentSlicesToAllRanks) {
  run_threads(3, [](const SharedReducerOptions& options) {
    const auto reducer = SharedReducer::join(options);
    ASSERT_TRUE(reducer) << reducer.status().message();
    const Status status = sum_zeros(**reducer, 3, options.rank == 2 ? 1 : 0);
    EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
    EXPECT_THAT(status.message(), HasSubstr("ranks 0 and 2 sum different codecs or slices"));
  });
}

TEST(SharedReducer, ReportsDifferentOptionsToAllRanks) {
  run_threads(3, [](SharedReducerOptions options) {
    if (options.rank == 1) options.capacity *= 2;
    const auto begin = std::chrono::steady_clock::now();
    const auto reducer = SharedReducer::join(options);
    ASSERT_FALSE(reducer);
    EXPECT_EQ(reducer.status().code(), ErrorCode::kDisagreement);
    EXPECT_THAT(reducer.status().message(), HasSubstr("rank 0 has 3 ranks and"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, options.timeout / 2);
  });
}

TEST(SharedReducer, RejectsTwoProcessesWithTheSameRank) {
  run_threads(3, [](SharedReducerOptions options) {
    if (options.rank == 2) options.rank = 1;
    const auto reducer = SharedReducer::join(options);
    ASSERT_FALSE(reducer);
    EXPECT_EQ(reducer.status().code(), ErrorCode::kDisagreement);
    EXPECT_THAT(reducer.status().message(), HasSubstr("two processes use rank 1"));
  });
}

TEST(SharedReducer, ReportsInvalidDigitsToAllRanks) {
  run_threads(2, [](const SharedReducerOptions& options) {
    const auto codec = make_codec("g_ternary");
    const auto reducer = SharedReducer::join(options);
    ASSERT_TRUE(codec);
    ASSERT_TRUE(reducer) << reducer.status().message();
    const Slice slice{.count = 1000, .ranks = 2};
    Message own = encoded(**codec, slice, options.rank);
    if (options.rank == 1) own[sign_codes_at(slice.count)] = std::byte{250};
    Message sum((*codec)->encoded_size(slice, 2));
    const SharedMessage message{.slice = slice, .own = own, .sum = sum};
    const Status status = (*reducer)->sum(**codec, std::span(&message, 1));
    EXPECT_EQ(status.code(), ErrorCode::kCorruptFrame);
    EXPECT_THAT(status.message(), HasSubstr("line 0 of rank 1: bad_digits"));
  });
}

TEST(SharedReducer, TimesOut) {
  SharedReducerOptions options{.name = unique_name(), .rank = 0, .ranks = 2};
  options.timeout = std::chrono::milliseconds(50);
  const auto first = SharedReducer::join(options);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.status().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(first.status().message(), HasSubstr("1 of 2 ranks joined within 50 ms"));
  options.rank = 1;
  const auto second = SharedReducer::join(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.status().code(), ErrorCode::kDeadlineExceeded);
}

TEST(SharedReducer, RejectsInvalidOptionsAndCodecs) {
  const auto code = [](const SharedReducerOptions& options) {
    return SharedReducer::join(options).status().code();
  };
  EXPECT_EQ(code({.name = ""}), ErrorCode::kBadConfig);
  EXPECT_EQ(code({.name = "a/b"}), ErrorCode::kBadConfig);
  EXPECT_EQ(code({.name = "a", .rank = 2, .ranks = 2}), ErrorCode::kBadConfig);
  EXPECT_EQ(code({.name = "a", .ranks = 65}), ErrorCode::kBadConfig);
  EXPECT_EQ(code({.name = "a", .capacity = 0}), ErrorCode::kBadConfig);
  for (const char* spelling : {"g_binary+majority", "waterfill:4", "bf16"}) {
    const auto codec = make_codec(spelling);
    ASSERT_TRUE(codec);
    EXPECT_EQ(SharedReducer::check(**codec).code(), ErrorCode::kUnsupported) << spelling;
  }
  const auto reducer = SharedReducer::join({.name = unique_name(), .capacity = 64});
  ASSERT_TRUE(reducer) << reducer.status().message();
  const Status status = sum_zeros(**reducer, 1);
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("join with a larger capacity"));
}

}  // namespace
}  // namespace nf
