// Errors of profiles and their messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "neuron_fabric/profile.h"
#include "runtime/profile_json.h"

namespace nf {
namespace {

using test::full;
using test::full_with;
using test::Json;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(const std::string& text) {
  const Expected<Profile> profile = Profile::parse(text, "p.json");
  EXPECT_FALSE(profile) << text;
  EXPECT_EQ(profile.status().code(), ErrorCode::kBadConfig);
  EXPECT_THAT(profile.status().message(), StartsWith("p.json: "));
  return profile.status().message().substr(8);
}

TEST(ProfileErrors, RejectsOtherFormats) {
  EXPECT_THAT(error_of(""), HasSubstr("unexpected end of input"));
  EXPECT_EQ(error_of("[]"), "expected an object, {...}");
  EXPECT_THAT(error_of("{}"), StartsWith("not a profile"));
  EXPECT_THAT(error_of(full_with("/format", "\"other\"")), StartsWith("not a profile"));
  EXPECT_EQ(error_of(R"({"name": "a", "name": "b"})"), "key 'name' is given twice");
  EXPECT_EQ(error_of(std::string((1 << 20) + 1, ' ')), "larger than 1 MiB");
}

TEST(ProfileErrors, ReportsANewerVersionBeforeUnknownKeys) {
  Json json = full();
  json["version"] = 2;
  json["novelty"] = true;
  EXPECT_THAT(error_of(json.dump()), HasSubstr("has version 2"));
  EXPECT_THAT(error_of(json.dump()), HasSubstr("update neuron_fabric"));
  EXPECT_EQ(error_of(full_with("/version", "0")), "version is not 1");
  EXPECT_EQ(error_of(full_with("/version", "\"1\"")), "version is not 1");
  json.erase("version");
  EXPECT_EQ(error_of(json.dump()), "version is missing");
}

TEST(ProfileErrors, NamesTheNearestKeyAndItsPath) {
  const auto with_key = [](const std::string& pointer) {
    return error_of(full_with(pointer, "1"));
  };
  EXPECT_EQ(with_key("/regoins"), "unknown key 'regoins'; did you mean 'regions'?");
  EXPECT_EQ(with_key("/regions/1/module_type"),
            "regions[1]: unknown key 'module_type'; did you mean 'module_types'?");
  EXPECT_EQ(with_key("/phases/0/route"), "phases[0]: unknown key 'route'; did you mean 'routes'?");
  EXPECT_EQ(with_key("/health/norm_spik"),
            "health: unknown key 'norm_spik'; did you mean 'norm_spike'?");
  EXPECT_EQ(with_key("/reducer/most_worker"),
            "reducer: unknown key 'most_worker'; did you mean 'most_workers'?");
}

TEST(ProfileErrors, NamesMissingKeys) {
  for (const char* key : {"name", "regions", "phases"}) {
    Json json = full();
    json.erase(key);
    EXPECT_EQ(error_of(json.dump()), std::string(key) + " is missing");
  }
  EXPECT_EQ(error_of(full_with("/regions/0", "{}")), "regions[0].name is missing");
  EXPECT_EQ(error_of(full_with("/phases/1", R"({"routes": {}})")),
            "phases[1].from_step is missing");
  EXPECT_EQ(error_of(full_with("/phases/1", R"({"from_step": 9})")), "phases[1].routes is missing");
}

TEST(ProfileErrors, RejectsOtherTypes) {
  EXPECT_EQ(error_of(full_with("/name", "3")), "name is not a string in quotes");
  EXPECT_EQ(error_of(full_with("/regions", "{}")), "regions is not a list, [...]");
  EXPECT_EQ(error_of(full_with("/regions/2", "\"norm\"")), "regions[2]: expected an object, {...}");
  EXPECT_THAT(error_of(full_with("/regions/0/names", "\"fc.*\"")),
              StartsWith("regions[0].names is not a list of strings"));
  EXPECT_THAT(error_of(full_with("/regions/0/names/1", "null")),
              StartsWith("regions[0].names is not a list of strings"));
  EXPECT_EQ(error_of(full_with("/regions/2/error_budget", "\"0.1\"")),
            "regions[2].error_budget is not a number");
  EXPECT_EQ(error_of(full_with("/phases/0/routes", "[]")),
            "phases[0].routes: expected an object, {...}");
  EXPECT_EQ(error_of(full_with("/phases/0/routes/head", "32")),
            "phases[0].routes: the route of 'head' is not a string in quotes");
  EXPECT_THAT(error_of(full_with("/phases/1/from_step", "1.5")),
              StartsWith("phases[1].from_step is not a whole number"));
  EXPECT_THAT(error_of(full_with("/health/warm_up_steps", "-1")),
              StartsWith("health.warm_up_steps is not a whole number"));
  EXPECT_EQ(error_of(full_with("/health", "[]")), "health: expected an object, {...}");
  EXPECT_EQ(error_of(full_with("/provenance", "\"me\"")), "provenance: expected an object, {...}");
}

TEST(ProfileErrors, RejectsNumbersOutsideTheirRanges) {
  EXPECT_EQ(error_of(full_with("/health/norm_spike", "1")),
            "health.norm_spike is 1; it must be more than 1 and at most 1000000");
  EXPECT_EQ(error_of(full_with("/health/cool_down_steps", "0")),
            "health.cool_down_steps is 0; it must be at least 1 and at most 1000000000000");
  for (const auto& [pointer, value] : std::vector<std::pair<std::string, std::string>>{
           {"/health/warm_up_steps", "1000000000001"},
           {"/health/norm_spike", "1e7"},
           {"/health/loss_spike", "0"},
           {"/health/error_budget", "0"},
           {"/health/error_budget", "-0.1"},
           {"/health/most_fallbacks", "1000001"},
           {"/health/lock_out_window_steps", "0"},
           {"/reducer/most_workers", "65537"},
           {"/reducer/lines_per_second", "-1"},
           {"/reducer/queue_lines", "1000000000000001"},
           {"/smallest_parameter", "1000000000001"},
           {"/phases/1/from_step", "1000000000001"},
           {"/regions/2/error_budget", "0"}}) {
    EXPECT_THAT(error_of(full_with(pointer, value)), HasSubstr("it must be")) << pointer;
  }
  EXPECT_THAT(error_of(full_with("/health/norm_spike", "10").replace(0, 1, "{\"x\": 1e999, ")),
              HasSubstr("number overflow"));
}

TEST(ProfileErrors, RejectsNonFiniteNumbers) {
  Profile profile = *Profile::parse(full().dump());
  profile.health.norm_spike = std::numeric_limits<double>::infinity();
  EXPECT_THAT(profile.check().message(), StartsWith("health.norm_spike is inf"));
  profile.health.norm_spike = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(profile.check().message(), StartsWith("health.norm_spike is nan"));
}

TEST(ProfileErrors, RequiresUniqueRegionNames) {
  EXPECT_EQ(error_of(full_with("/regions/1/name", "\"head\"")),
            "regions[1].name: there are two regions 'head'");
  for (const char* name : {"\"\"", "\"a b\"", "\"a\\nb\"", "\"\\u00e4\"", "\"a/b\""}) {
    EXPECT_THAT(error_of(full_with("/regions/1/name", name)), HasSubstr("1 to 64 letters, digits"));
  }
  EXPECT_THAT(error_of(full_with("/regions/1/name", '"' + std::string(65, 'a') + '"')),
              HasSubstr("1 to 64 letters, digits"));
}

TEST(ProfileErrors, RejectsInvalidStrings) {
  EXPECT_EQ(error_of(full_with("/name", "\"\"")), "name is empty");
  EXPECT_EQ(error_of(full_with("/regions/0/names/1", "\"\"")), "regions[0].names[1] is empty");
  EXPECT_EQ(error_of(full_with("/regions/0/names/1", "\"a\\u0001\"")),
            "regions[0].names[1] has a control character");
  EXPECT_EQ(error_of(full_with("/regions/1/module_types/0", '"' + std::string(1025, 'a') + '"')),
            "regions[1].module_types[0] is longer than 1024 bytes");
}

TEST(ProfileErrors, LimitsItsLists) {
  EXPECT_EQ(error_of(full_with("/regions", "[]")), "regions has 0 elements; it must have 1 to 64");
  EXPECT_EQ(error_of(full_with("/phases", "[]")), "phases has 0 elements; it must have 1 to 64");
  const Json many = std::vector<std::string>(257, "a");
  EXPECT_EQ(error_of(full_with("/regions/0/names", many.dump())),
            "regions[0].names has 257 elements; it must have 1 to 256");
  Json regions = Json::array();
  for (int i = 0; i < 65; ++i) regions.push_back({{"name", "r" + std::to_string(i)}});
  EXPECT_THAT(error_of(full_with("/regions", regions.dump())), StartsWith("regions has 65"));
}

TEST(ProfileErrors, RejectsAProfileWhosePrintedFormIsTooLarge) {
  std::string zeros = "0";
  for (int i = 1; i < 200'000; ++i) zeros += ",0";
  EXPECT_EQ(error_of(full_with("/provenance", "{\"evidence\": [" + zeros + "]}")),
            "larger than 1 MiB when printed");
}

TEST(ProfileErrors, RequiresPhasesThatAscendFromStep0) {
  EXPECT_EQ(error_of(full_with("/phases/0/from_step", "1")),
            "phases[0].from_step is 1; the first phase must start at step 0");
  EXPECT_EQ(error_of(full_with("/phases/1/from_step", "0")),
            "phases[1].from_step is 0; it must be more than 0, that of the previous phase");
}

TEST(ProfileErrors, RequiresOneRoutePerRegion) {
  Json json = full();
  json["phases"][1]["routes"].erase("norm");
  EXPECT_EQ(error_of(json.dump()), "phases[1].routes has no route for region 'norm'");
  EXPECT_EQ(error_of(full_with("/phases/1/routes/haed", "\"fp32\"")),
            "phases[1].routes: there is no region 'haed'; did you mean 'head'?");
}

TEST(ProfileErrors, RejectsInvalidRoutes) {
  EXPECT_EQ(error_of(full_with("/phases/0/routes/backbone", "\"waterfil:4\"")),
            "phases[0].routes.backbone: codec 'waterfil' is unknown; did you mean 'waterfill'?");
  for (const char* route :
       {"\"\"", "\"waterfill\"", "\"waterfill:40\"", "\"powersgd\"", "\"powersgd:0\"",
        "\"fp32\\n\"", "\"\\u00e4\"", "\"powersgd:65\"", "\"powersgd:2+ef\""}) {
    EXPECT_THAT(error_of(full_with("/phases/0/routes/backbone", route)),
                StartsWith("phases[0].routes.backbone"))
        << route;
  }
  for (const char* route : {"\"powersgd:4\"", "\"waterfill:2+ef\"", "\"g_binary+majority\""}) {
    EXPECT_TRUE(Profile::parse(full_with("/phases/0/routes/backbone", route))) << route;
  }
}

TEST(ProfileErrors, ChecksProfilesBuiltInCode) {
  EXPECT_EQ(Profile().check().message(), "name is empty");
  Profile profile = *Profile::parse(full().dump());
  EXPECT_TRUE(profile.check().ok());
  profile.provenance = "{";
  EXPECT_THAT(profile.check().message(), StartsWith("provenance: parse error"));
  profile.provenance = "[]";
  EXPECT_EQ(profile.check().message(), "provenance: expected an object, {...}");
}

}  // namespace
}  // namespace nf
