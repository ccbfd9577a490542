// The fixture of tests that need a CUDA device.
#pragma once

#include <gtest/gtest.h>

#include "cuda/device_copy.h"

namespace nf::test {

// Skips its tests if this host has no CUDA device.
template <typename Base = testing::Test>
class OnDevice : public Base {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device on this host";
  }
};

}  // namespace nf::test
