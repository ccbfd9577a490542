#include "neuron_fabric/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/profile_json.h"

namespace nf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using test::full;
using test::full_with;
using test::Json;
using test::least;

TEST(Profile, ReadsAllKeys) {
  const Expected<Profile> profile = Profile::parse(full().dump());
  ASSERT_TRUE(profile) << profile.status().message();
  EXPECT_EQ(profile->name, "full");
  ASSERT_EQ(profile->regions.size(), 3u);
  EXPECT_EQ(profile->regions[0], (Region{.name = "head", .names = {"fc.*", "classifier.*"}}));
  EXPECT_THAT(profile->regions[1].module_types, ElementsAre("*Norm*", "*Norm?d"));
  EXPECT_EQ(profile->regions[2].error_budget, 0.5);
  ASSERT_EQ(profile->phases.size(), 2u);
  EXPECT_EQ(profile->phases[1].from_step, 2000u);
  EXPECT_THAT(profile->phases[1].routes, ElementsAre(Pair("backbone", "g_binary"),
                                                     Pair("head", "bf16"), Pair("norm", "fp32")));
  const HealthLimits health{.warm_up_steps = 1,
                            .norm_spike = 2.5,
                            .loss_spike = 3,
                            .error_budget = 0.25,
                            .cool_down_steps = 4,
                            .probation_steps = 5,
                            .most_fallbacks = 6,
                            .lock_out_window_steps = 7};
  EXPECT_EQ(profile->health, health);
  const ReducerCapacity reducer{.most_workers = 15, .lines_per_second = 1.5e9, .queue_lines = 4096};
  EXPECT_EQ(profile->reducer, reducer);
  EXPECT_EQ(profile->smallest_parameter, 512u);
  EXPECT_EQ(profile->provenance, R"({"evidence":[1,2.5,{"deep":null}],"tool":"a test"})");
}

TEST(Profile, HasDefaultsForMissingKeys) {
  const Expected<Profile> profile = Profile::parse(least().dump());
  ASSERT_TRUE(profile) << profile.status().message();
  EXPECT_EQ(profile->health, HealthLimits());
  EXPECT_EQ(profile->reducer, ReducerCapacity());
  EXPECT_EQ(profile->smallest_parameter, Profile().smallest_parameter);
  EXPECT_EQ(profile->provenance, "{}");
}

TEST(Profile, ReadsBackWhatItPrints) {
  for (const Json& json : {full(), least()}) {
    const Expected<Profile> profile = Profile::parse(json.dump());
    ASSERT_TRUE(profile);
    const Expected<Profile> again = Profile::parse(profile->print());
    ASSERT_TRUE(again) << again.status().message();
    EXPECT_EQ(*again, *profile);
    EXPECT_EQ(again->print(), profile->print());
  }
}

// python/tests/profile_schema_test.py checks the same files against docs/profile.schema.json.
TEST(Profile, PrintsTheGoldenFiles) {
  const std::pair<std::string, Json> cases[] = {{"full", full()}, {"least", least()}};
  for (const auto& [name, json] : cases) {
    const auto path = std::filesystem::path(NF_PRINTED_DIR) / ("printed_" + name + ".json");
    const std::string printed = Profile::parse(json.dump())->print();
    if (std::getenv("NF_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << printed;
    std::ifstream file(path);
    EXPECT_EQ(printed, std::string(std::istreambuf_iterator<char>(file), {}));
  }
}

TEST(Profile, PrintsAnInvalidProfile) {
  Profile profile;
  profile.name = "\xff";
  profile.provenance = "[no object";
  EXPECT_THAT(profile.print(), HasSubstr("\"provenance\": {}"));
}

TEST(Profile, IsReadFromAFile) {
  const auto path = std::filesystem::path(testing::TempDir()) / "profile_test.json";
  std::ofstream(path) << full().dump();
  const Expected<Profile> profile = Profile::read(path.string());
  ASSERT_TRUE(profile) << profile.status().message();
  EXPECT_EQ(profile->name, "full");
  std::ofstream(path) << full_with("/name", "1");
  EXPECT_EQ(Profile::read(path.string()).status().message(),
            path.string() + ": name is not a string in quotes");
  std::ofstream(path) << std::string((1 << 20) + 1, ' ');
  EXPECT_EQ(Profile::read(path.string()).status().message(), path.string() + ": larger than 1 MiB");
  std::filesystem::remove(path);
  EXPECT_EQ(Profile::read(path.string()).status().message(),
            path.string() + ": cannot read the file: No such file or directory");
  EXPECT_EQ(Profile::read(testing::TempDir()).status().message(),
            testing::TempDir() + ": cannot read the file: Is a directory");
}

}  // namespace
}  // namespace nf
