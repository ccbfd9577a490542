// The timing of answers: five cycles after the request, one per cycle, in order.
#include "cxl/pipeline.h"

#include <gtest/gtest.h>

#include "cxl/lines.h"

namespace nf::cxl {
namespace {

using test::Generator;

class PipelineTest : public testing::Test {
 protected:
  void enable(Mode mode, std::uint64_t workers, std::uint64_t lines) {
    config_ = test::config_of(mode, workers, lines);
    ASSERT_EQ(reducer_.enable(0, config_), Fault::kOk);
  }

  Reducer reducer_;
  RegionConfig config_;
  Pipeline pipeline_{reducer_};
};

TEST_F(PipelineTest, AnswersFiveCyclesAfterTheRequest) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGBinary, 1, 1));
  const Request request = test::write_of(config_, 0, 0, {});
  EXPECT_TRUE(pipeline_.tick(&request, true).taken);
  for (unsigned cycle = 1; cycle < kStages; ++cycle) {
    EXPECT_FALSE(pipeline_.answer_valid()) << cycle;
    EXPECT_FALSE(pipeline_.tick(nullptr, true).answered) << cycle;
  }
  EXPECT_TRUE(pipeline_.answer_valid());
  const auto result = pipeline_.tick(nullptr, true);
  ASSERT_TRUE(result.answered);
  EXPECT_TRUE(result.answered->complete);
  EXPECT_TRUE(pipeline_.is_empty());
}

TEST_F(PipelineTest, TakesARequestEveryCycle) {
  constexpr std::uint64_t kLines = 100;
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGBinary, 1, kLines));
  std::uint64_t answered = 0;
  for (std::uint64_t cycle = 0; cycle < kLines + kStages; ++cycle) {
    const Request request = test::write_of(config_, 0, cycle, {});
    const auto result = pipeline_.tick(cycle < kLines ? &request : nullptr, true);
    EXPECT_EQ(result.taken, cycle < kLines);
    EXPECT_EQ(result.answered.has_value(), cycle >= kStages);
    answered += result.answered ? 1 : 0;
  }
  EXPECT_EQ(answered, kLines);
}

TEST_F(PipelineTest, StallsAllStagesWhileTheReceiverIsNotReady) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGBinary, 1, 10));
  for (std::uint64_t line = 0; line < kStages; ++line) {
    const Request request = test::write_of(config_, 0, line, {});
    EXPECT_TRUE(pipeline_.tick(&request, false).taken);  // nothing to answer yet
  }
  const Request next = test::write_of(config_, 0, 5, {});
  for (int cycle = 0; cycle < 3; ++cycle) {
    EXPECT_TRUE(pipeline_.answer_valid());
    EXPECT_FALSE(pipeline_.ready(false));
    const auto result = pipeline_.tick(&next, false);
    EXPECT_FALSE(result.taken || result.answered);
  }
  EXPECT_TRUE(pipeline_.ready(true));
  const auto result = pipeline_.tick(&next, true);
  EXPECT_TRUE(result.taken && result.answered);
}

TEST_F(PipelineTest, AnswersTheCompletingFp32WriteAtOnceAndStallsWhileItAdds) {
  for (const std::uint64_t workers : {1u, 2u, 8u, 64u}) {
    reducer_ = Reducer();
    ASSERT_NO_FATAL_FAILURE(enable(Mode::kFp32, workers, 1));
    for (std::uint64_t worker = 0; worker < workers; ++worker) {
      const Request request = test::write_of(config_, worker, 0, {});
      EXPECT_TRUE(pipeline_.tick(&request, true).taken);
    }
    // The last write enters stage 5 after four more cycles.
    for (unsigned cycle = 1; cycle < kStages; ++cycle) pipeline_.tick(nullptr, true);
    const Request read = test::read_of(config_, workers, 0);
    ASSERT_TRUE(pipeline_.answer_valid());
    EXPECT_TRUE(pipeline_.answer().complete);
    EXPECT_EQ(pipeline_.ready(true), workers == 1);
    EXPECT_TRUE(pipeline_.tick(&read, true).answered);
    for (std::uint64_t left = workers == 1 ? 0 : 2 * (workers - 1); left > 0; --left) {
      EXPECT_FALSE(pipeline_.answer_valid());
      EXPECT_FALSE(pipeline_.ready(true));
      EXPECT_FALSE(pipeline_.tick(&read, left % 2 == 0).taken);  // independent of answer_ready
    }
    EXPECT_TRUE(pipeline_.tick(&read, false).taken);
    while (!pipeline_.is_empty()) pipeline_.tick(nullptr, true);
  }
}

TEST_F(PipelineTest, AddsWhileTheReceiverIsNotReady) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kFp32, 4, 1));
  for (std::uint64_t worker = 0; worker < 4; ++worker) {
    const Request request = test::write_of(config_, worker, 0, {});
    EXPECT_TRUE(pipeline_.tick(&request, true).taken);
  }
  for (unsigned cycle = 1; cycle < kStages; ++cycle) pipeline_.tick(nullptr, true);
  for (std::uint64_t left = fold_cycles(3); left > 0; --left) {
    EXPECT_FALSE(pipeline_.ready(true));
    EXPECT_FALSE(pipeline_.tick(nullptr, false).answered);
  }
  EXPECT_TRUE(pipeline_.answer_valid());
  EXPECT_FALSE(pipeline_.ready(false));
  EXPECT_TRUE(pipeline_.ready(true));
}

TEST_F(PipelineTest, CountsBackToBackWritesOfOneLine) {
  // All workers write the same line back to back, and its planes are read in the next cycles.
  constexpr std::uint64_t kWorkers = 7;
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGBinary, kWorkers, 1));
  Line ones;
  ones.words.fill(~std::uint64_t{0});
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < kWorkers; ++i)
    requests.push_back(test::write_of(config_, i, 0, ones));
  for (std::uint64_t k = 0; k < 3; ++k) requests.push_back(test::read_of(config_, kWorkers + k, 0));
  std::vector<Answer> answers;
  for (std::size_t cycle = 0; cycle < requests.size() + kStages; ++cycle) {
    const auto result = pipeline_.tick(cycle < requests.size() ? &requests[cycle] : nullptr, true);
    if (result.answered) answers.push_back(*result.answered);
  }
  ASSERT_EQ(answers.size(), requests.size());
  for (std::size_t i = kWorkers; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].fault, Fault::kOk);
    EXPECT_EQ(answers[i].data, ones);  // 7 is 111
  }
}

}  // namespace
}  // namespace nf::cxl
