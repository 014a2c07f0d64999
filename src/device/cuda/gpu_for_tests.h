#pragma once

#include <gtest/gtest.h>

#include "device/cuda_devices.h"

namespace nibble::device {

/// Tests that need a GPU; without one they are skipped.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices().empty()) {
      GTEST_SKIP() << "there is no NVIDIA GPU";
    }
  }
};

}  // namespace nibble::device
