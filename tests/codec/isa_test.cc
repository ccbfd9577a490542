// The selection of the ISA. ctest also runs this program with NF_FORCE_ISA set (CMakeLists.txt).
// Tests that change the state of the process run in a child process.
#include "codec/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "neuron_fabric/codec.h"

namespace nf {
namespace {

using testing::ExitedWithCode;
using testing::HasSubstr;

// Sets NF_FORCE_ISA during its lifetime.
class Forced {
 public:
  explicit Forced(const std::string& name) {
    if (const char* before = std::getenv("NF_FORCE_ISA")) before_ = before;
    setenv("NF_FORCE_ISA", name.c_str(), 1);
  }
  ~Forced() { setenv("NF_FORCE_ISA", before_.c_str(), 1); }

 private:
  std::string before_;
};

TEST(Isa, ScalarIsAlwaysAvailableAndTheLast) {
  const auto isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.back(), Isa::kScalar);
  EXPECT_EQ(std::count(isas.begin(), isas.end(), Isa::kScalar), 1);
}

TEST(Isa, IsFoundByItsName) {
  for (const Isa isa : available_isas()) {
    const Expected<Isa> found = find_isa(to_string(isa));
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, isa);
  }
  EXPECT_EQ(to_string(Isa::kAvx2), "avx2");
  EXPECT_EQ(to_string(Isa::kAvx512), "avx512");
  EXPECT_EQ(to_string(Isa::kNeon), "neon");
  EXPECT_EQ(to_string(static_cast<Isa>(99)), "unknown");
}

TEST(Isa, RejectsUnknownNamesAndListsTheAvailableOnes) {
  for (const char* name : {"", "AVX2", "vax", "avx2 "}) {
    const Expected<Isa> isa = find_isa(name);
    ASSERT_FALSE(isa) << name;
    EXPECT_EQ(isa.status().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(isa.status().message(), HasSubstr("scalar"));
  }
}

TEST(Isa, EveryAvailableOneCanBeForced) {
  for (const Isa isa : available_isas()) {
    const Forced forced{std::string(to_string(isa))};
    ASSERT_TRUE(active_isa());
    EXPECT_EQ(*active_isa(), isa);
    EXPECT_TRUE(make_codec("waterfill:4"));
  }
}

TEST(Isa, ForcingAnUnavailableOneIsAnError) {
  const Forced forced("vax");
  EXPECT_EQ(active_isa().status().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(active_isa().status().message(), HasSubstr("NF_FORCE_ISA"));
  for (const CodecEntry& entry : builtin_codecs()) {
    const auto codec = make_codec(entry.example);
    ASSERT_FALSE(codec) << entry.name;
    EXPECT_EQ(codec.status().code(), ErrorCode::kUnsupported) << entry.name;
  }
}

TEST(Isa, EmptyNameSelectsTheBest) {
  const Forced forced("");
  EXPECT_EQ(*active_isa(), available_isas().front());
}

TEST(Isa, SetIsaOverridesTheEnvironment) {
  EXPECT_EXIT(
      {
        const Forced forced("vax");
        set_isa(Isa::kScalar);
        std::exit(active_isa() && *active_isa() == Isa::kScalar ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST(ForcedIsa, IsTheActiveOne) {
  const char* name = std::getenv("NF_FORCE_ISA");
  if (name == nullptr || *name == '\0') GTEST_SKIP() << "NF_FORCE_ISA is not set";
  if (!find_isa(name)) {
    EXPECT_EQ(active_isa().status().code(), ErrorCode::kUnsupported);
    return;
  }
  ASSERT_TRUE(active_isa());
  EXPECT_EQ(to_string(*active_isa()), name);
}

}  // namespace
}  // namespace nf
