#include "compress/calibration/gpu_layers.h"

#include <string>

#include <gtest/gtest.h>

#include "compress/recipe/recipe.h"
#include "device/cuda_devices.h"

namespace nibble::compress::cuda {
namespace {

// Of a build with CUDA; no GPU is asked.
class GpuLayers : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::cuda_is_built()) {
      GTEST_SKIP() << "this build has no CUDA";
    }
  }
};

std::string problem(const char* scheme) {
  return std::string(gpu_calibration_problem(formats::parse_scheme(scheme)));
}

TEST_F(GpuLayers, TakesWhatRunsInFloats) {
  for (const char* scheme : {"f16", "int4-asym-g128", "lut4-row-g128", "mxfp4", "int4-sym-g24"}) {
    EXPECT_EQ(problem(scheme), "") << scheme;
  }
}

TEST_F(GpuLayers, TakesIntegersAndBooksThatMeetRoundedActivations) {
  for (const char* scheme :
       {"int8-sym-row-a8", "int8-sym-row-a8o", "int4-sym-g128-a4-asym", "lut4-row-g128-a8",
        "int4-sym-g128-a4g128c0.9-tail128", "int4-sym-g128-a4g128c0.9-h128-tail128",
        "int4-sym-g128-a4c0.9-hrow", "lut4-fp4-g128-afp4g128-tail128", "int8-sym-row-afp4"}) {
    EXPECT_EQ(problem(scheme), "") << scheme;
  }
}

// Every layer of the recipes that calibrate behind rounded activations.
TEST_F(GpuLayers, TakesTheLayersOfPresets) {
  for (const char* name : {"atom-w4a4", "atom-w3a3", "atom-rot-w4a4", "atom-fp4", "atom-rot-fp4",
                           "smoothquant-w8a8", "quarot-w4a4", "quarot-gptq-w4g128"}) {
    const Recipe recipe = find_recipe(name);
    EXPECT_EQ(gpu_calibration_problem(recipe.scheme), "") << name;
    for (const LayerRule& rule : recipe.layers) {
      EXPECT_EQ(gpu_calibration_problem(rule.scheme), "") << name;
    }
  }
}

TEST_F(GpuLayers, SaysWhatItDoesNotTake) {
  const auto says = [](const char* scheme, const char* words) {
    EXPECT_NE(problem(scheme).find(words), std::string::npos) << scheme << ": " << problem(scheme);
  };
  says("int4-asym-g128-h128", "turned or reordered");
  says("int8-sym-row-a8s", "stored scales");
  says("fp8-row-afp8", "activations that are E4M3 numbers");
  says("mxfp4-a8", "fp16 scales");
  says("int4-asym-g16-bsr-a8", "block-sparse rows");
  says("int8-sym-row-2of4-a8", "two of each four");
  says("trellis4-row-a8", "trellis codes");
  says("int4-sym-g24-a4", "multiples of 16");
  says("int4-sym-g48-a4g24", "multiples of 16");
}

}  // namespace
}  // namespace nibble::compress::cuda
