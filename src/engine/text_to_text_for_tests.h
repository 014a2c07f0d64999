#pragma once

#include <gtest/gtest.h>

#include "device/cuda_devices.h"
#include "device/place.h"
#include "engine/runner.h"

/// Tests of encoder-decoders that run on each device: CMake says on which.
namespace nibble::engine {

inline device::Place test_place() {
  return device::parse_place(NIBBLE_TEST_DEVICE);
}
inline bool on_gpu() {
  return test_place().on_gpu();
}

/// On a GPU all of a float model is computed in float32.
inline RunnerOptions on_device() {
  RunnerOptions options;
  options.place = test_place();
  options.cpu.threads = 2;
  if (on_gpu()) {
    options.cpu.activations = ops::ActivationPrecision::kFloat;
  }
  return options;
}

/// Tests that are skipped where their device is not there.
template <typename Test>
class OnDevice : public Test {
 protected:
  void SetUp() override {
    if (on_gpu() && device::cuda_devices().empty()) {
      GTEST_SKIP() << "there is no NVIDIA GPU";
    }
  }
};

}  // namespace nibble::engine
