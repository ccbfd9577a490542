#include "runtime/admission_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "runtime/training_run.h"

namespace nf {
namespace {

using testing::HasSubstr;

TEST(AdmissionState, RejectsAnInvalidState) {
  Training run(short_profile());
  make_non_finite(run.at(5));
  run.next(9);
  const std::string state = run.admission().state();
  const auto error_of = [&](const std::string& text) {
    const Status status = run.admission().load(text);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_EQ(run.admission().state(), state) << "the state has changed";
    return status.message();
  };
  for (const char* text : {"", "{", "[]", "null", "1", "{}", "\xff\xfe", "{\"version\":\"1\"}"}) {
    error_of(text);
  }
  EXPECT_THAT(error_of("{\"version\":7}"), HasSubstr("version 7"));
  for (std::size_t size = 0; size < state.size(); ++size) error_of(state.substr(0, size));
  const auto with = [&](std::string_view what, std::string_view instead) {
    std::string text = state;
    return text.replace(text.find(what), what.size(), instead);
  };
  for (const char* key :
       {"next_step", "epoch", "loss", "name", "stage", "is_useful", "cause", "is_fallback_new",
        "dense_until", "probation_left", "fallbacks", "is_low_bit", "reason", "route", "norm"}) {
    const std::string quoted = "\"" + std::string(key) + "\":";
    error_of(with(quoted, "\"other\":"));
    error_of(with(quoted, quoted + "null,\"other\":"));
  }
  error_of(with("\"stage\":\"cool_down\"", "\"stage\":\"warm_up\""));
  error_of(with("\"reason\":\"cool_down\"", "\"reason\":\"steady\""));
  error_of(with("\"loss\":[7,2.0,0.0]", "\"loss\":[7,2.0,-1.0]"));
  error_of(with("\"loss\":[7,2.0,0.0]", "\"loss\":[7,2.0]"));
  error_of(with("\"fallbacks\":[7]", "\"fallbacks\":[-7]"));
}

TEST(AdmissionState, NamesAnInvalidCount) {
  Training run(short_profile());
  run.next(9);
  const std::string state = run.admission().state();
  for (const char* key : {"next_step", "epoch", "dense_until", "probation_left"}) {
    for (const char* value : {"-1", "0.5", "1e300", "18446744073709551615"}) {
      const std::string quoted = "\"" + std::string(key) + "\":";
      std::string text = state;
      text.replace(text.find(quoted), quoted.size(), quoted + value + ",\"other\":");
      const Status status = run.admission().load(text);
      EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << text;
      EXPECT_THAT(status.message(), HasSubstr("has no valid \"" + std::string(key) + "\""));
      EXPECT_EQ(run.admission().state(), state);
    }
  }
}

TEST(AdmissionState, RejectsTheStateOfOtherRegions) {
  Training run(short_profile());
  run.next(5);
  Profile renamed = short_profile();
  renamed.regions[1] = {.name = "stem", .names = {"stem.*"}};
  renamed.phases[0].routes = {{"body", "waterfill:4"}, {"stem", "waterfill:5"}, {"head", "fp32"}};
  Training other(renamed);
  const Status status = other.admission().load(run.admission().state());
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("has region 'trunk' instead of 'stem'"));
  EXPECT_EQ(other.next()[0], dense(Reason::kWarmUp));

  Profile fewer = short_profile();
  fewer.regions.erase(fewer.regions.begin());
  fewer.phases[0].routes.erase("body");
  Training smaller(fewer);
  EXPECT_THAT(smaller.admission().load(run.admission().state()).message(),
              HasSubstr("has 3 regions, the profile 2"));
}

TEST(Reason, IsFoundByItsName) {
  for (int i = 0; i <= static_cast<int>(Reason::kForced); ++i) {
    const Reason reason = static_cast<Reason>(i);
    EXPECT_EQ(find_reason(to_string(reason)), reason);
  }
  EXPECT_EQ(find_reason("unknown"), std::nullopt);
  EXPECT_EQ(to_string(Reason::kErrorBudget), "error_budget");
}

}  // namespace
}  // namespace nf
