#include "compress/calibration/gpu_layers.h"

#include <string>

#include <gtest/gtest.h>

#include "compress/recipe/recipe.h"

namespace nibble::compress {
namespace {

std::string problem(const char* scheme) {
  return std::string(gpu_calibration_problem(formats::parse_scheme(scheme)));
}

TEST(GpuLayers, TakesWhatRunsInFloats) {
  for (const char* scheme : {"f16", "int4-asym-g128", "lut4-row-g128", "mxfp4", "int4-sym-g24"}) {
    EXPECT_EQ(problem(scheme), "") << scheme;
  }
}

TEST(GpuLayers, TakesIntegersAndBooksThatMeetRoundedActivations) {
  for (const char* scheme :
       {"int8-sym-row-a8", "int8-sym-row-a8o", "int4-sym-g128-a4-asym", "lut4-row-g128-a8",
        "int4-sym-g128-a4g128c0.9-tail128", "int4-sym-g128-a4g128c0.9-h128-tail128",
        "int4-sym-g128-a4c0.9-hrow", "lut4-fp4-g128-afp4g128-tail128", "int8-sym-row-afp4"}) {
    EXPECT_EQ(problem(scheme), "") << scheme;
  }
}

// Every layer of the recipes that calibrate behind rounded activations.
TEST(GpuLayers, TakesTheLayersOfPresets) {
  for (const char* name : {"atom-w4a4", "atom-w3a3", "atom-rot-w4a4", "atom-fp4", "atom-rot-fp4",
                           "smoothquant-w8a8", "quarot-w4a4", "quarot-gptq-w4g128"}) {
    const Recipe recipe = find_recipe(name);
    EXPECT_EQ(gpu_calibration_problem(recipe.scheme), "") << name;
    for (const LayerRule& rule : recipe.layers) {
      EXPECT_EQ(gpu_calibration_problem(rule.scheme), "") << name;
    }
  }
}

TEST(GpuLayers, SaysWhatItDoesNotTake) {
  const auto says = [](const char* scheme, const char* words) {
    EXPECT_NE(problem(scheme).find(words), std::string::npos) << scheme << ": " << problem(scheme);
  };
  says("int4-asym-g128-h128", "turned or reordered");
  says("int8-sym-row-a8s", "stored scales");
  says("fp8-row-afp8", "E4M3");
  says("int4-asym-g16-bsr-a8", "all stored");
  says("int8-sym-row-2of4-a8", "all stored");
  says("int4-sym-g24-a4", "multiples of 16");
  says("int4-sym-g48-a4g24", "multiples of 16");
}

}  // namespace
}  // namespace nibble::compress
