#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace nf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class Log : public testing::Test {
 protected:
  ~Log() override { set_log_sink(LogLevel::kOff, {}); }

  void collect(LogLevel level) {
    set_log_sink(
        level, [this](LogLevel at, std::string_view message) { seen_.emplace_back(at, message); });
  }

  std::vector<std::pair<LogLevel, std::string>> seen_;
};

TEST_F(Log, SaysNothingUntilAsked) {
  EXPECT_FALSE(log_enabled(LogLevel::kError));
  testing::internal::CaptureStderr();
  log(LogLevel::kError, "unheard");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), IsEmpty());
}

TEST_F(Log, GivesTheSinkWhatIsLoudEnough) {
  collect(LogLevel::kWarn);
  log(LogLevel::kDebug, "a");
  log(LogLevel::kInfo, "b");
  log(LogLevel::kWarn, "c");
  log(LogLevel::kError, "d");
  EXPECT_THAT(seen_, ElementsAre(Pair(LogLevel::kWarn, "c"), Pair(LogLevel::kError, "d")));
}

TEST_F(Log, AnswersWhetherAMessageWouldBeSeen) {
  collect(LogLevel::kInfo);
  EXPECT_FALSE(log_enabled(LogLevel::kDebug));
  EXPECT_TRUE(log_enabled(LogLevel::kInfo));
  EXPECT_TRUE(log_enabled(LogLevel::kError));
  EXPECT_FALSE(log_enabled(LogLevel::kOff));
}

TEST_F(Log, GoesSilentAgain) {
  collect(LogLevel::kDebug);
  set_log_sink(LogLevel::kDebug, {});
  log(LogLevel::kError, "unheard");
  EXPECT_THAT(seen_, IsEmpty());
}

TEST_F(Log, WritesToStandardErrorByLevelName) {
  testing::internal::CaptureStderr();
  start_logging("info");
  log(LogLevel::kDebug, "too quiet");
  log(LogLevel::kInfo, "loud enough");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("loud enough"));
  EXPECT_THAT(text, testing::Not(HasSubstr("too quiet")));
}

TEST_F(Log, KnowsEveryLevelName) {
  const std::pair<const char*, LogLevel> names[] = {{"debug", LogLevel::kDebug},
                                                    {"info", LogLevel::kInfo},
                                                    {"warn", LogLevel::kWarn},
                                                    {"error", LogLevel::kError}};
  for (const auto& [name, level] : names) {
    start_logging(name);
    EXPECT_TRUE(log_enabled(level)) << name;
    EXPECT_EQ(log_enabled(LogLevel::kDebug), level == LogLevel::kDebug) << name;
  }
  start_logging("off");
  EXPECT_FALSE(log_enabled(LogLevel::kError));
}

TEST_F(Log, TakesAnUnknownLevelAsWarnAndSaysSo) {
  testing::internal::CaptureStderr();
  start_logging("verbose");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("unknown log level 'verbose'"));
  EXPECT_TRUE(log_enabled(LogLevel::kWarn));
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
}

}  // namespace
}  // namespace nf
