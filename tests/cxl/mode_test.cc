#include "cxl/mode.h"

#include <gtest/gtest.h>

namespace nf::cxl {
namespace {

TEST(Mode, IsFoundByItsName) {
  for (const Mode mode : kModes) EXPECT_EQ(find_mode(to_string(mode)), mode);
  EXPECT_FALSE(find_mode("g_trinary"));
  EXPECT_FALSE(find_mode(""));
}

TEST(Mode, HasEnoughPlanesForTheSumOfAllDigits) {
  for (const Mode mode : {Mode::kGBinary, Mode::kGTernary}) {
    for (std::uint64_t workers = 1; workers <= 64; ++workers) {
      const std::uint64_t max_sum = max_digit(mode) * workers;
      const unsigned planes = planes_of(mode, workers);
      EXPECT_LT(max_sum, std::uint64_t{1} << planes);
      EXPECT_GE(max_sum, std::uint64_t{1} << (planes - 1));
      EXPECT_EQ(result_windows_of(mode, workers), planes);
    }
  }
  EXPECT_EQ(planes_of(Mode::kGBinary, 64), 7u);
  EXPECT_EQ(planes_of(Mode::kGTernary, 64), 8u);
}

TEST(Mode, HasOneResultWindowForFp32AndNoneForIdentity) {
  EXPECT_EQ(result_windows_of(Mode::kFp32, 64), 1u);
  EXPECT_EQ(result_windows_of(Mode::kIdentity, 64), 0u);
  EXPECT_EQ(planes_of(Mode::kFp32, 64), 0u);
}

}  // namespace
}  // namespace nf::cxl
