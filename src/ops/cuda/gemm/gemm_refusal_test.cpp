#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cuda/gemm/gemm.h"

namespace nibble::ops::cuda {
namespace {

// What the kernels can't compute is refused before anything is launched.
void expect_refusal(const GemmWeights& weights, const Int8Inputs& inputs, const char* words,
                    const GemmPlan& plan = {}, const HalfOutput& half = {}) {
  float y = 0.0f;
  const GemmOutput output{.y = half.values == nullptr ? &y : nullptr, .stride = 16, .half = half};
  try {
    gemm_int8(plan, weights, nullptr, inputs, output, nullptr);
    FAIL() << "not refused: " << words;
  } catch (const core::Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Gemm, RefusesWhatItCannotCompute) {
  const GemmWeights weights{.units = {.format = {}, .n = 16, .k = 256}};
  GemmWeights changed = weights;
  changed.units.format.codes = CodeKind::kBook;
  expect_refusal(changed, {.tokens = 1, .row_bytes = 256}, "need float16 inputs");
  changed.units.format.codes = CodeKind::kBytes;
  expect_refusal(changed, {.tokens = 1, .row_bytes = 256}, "meet integers");
  float y = 0.0f;
  const HalfInputs halves{.tokens = 1, .row_bytes = 512};
  EXPECT_THROW(gemm_half({}, changed, halves, {.y = &y, .stride = 16}, nullptr), core::Error);
  changed = weights;
  changed.units.format.groups = 4;
  expect_refusal(changed, {.tokens = 1, .row_bytes = 256}, "groups smaller than 128");
  changed = weights;
  changed.units.format.scales = ScaleKind::kBf16;
  expect_refusal(changed, {.tokens = 1, .row_bytes = 256}, "scales must be float16");
  changed = weights;
  changed.units.k = 256'000;
  expect_refusal(changed, {.tokens = 1, .row_bytes = 256'000}, "are exact up to");
  expect_refusal(weights, {.tokens = 1, .row_bytes = 128}, "128 bytes a row of inputs");
  expect_refusal(weights, {.tokens = 1, .row_bytes = 250}, "multiples of 16");
  const GemmPlan wide{.wgmma = true, .row_tile = 128, .token_tile = 256};
  expect_refusal(weights, {.tokens = 1, .row_bytes = 256}, "tiles of 128 x 256", wide);
}

TEST(Gemm, RefusesRowsThatFillNoTiles) {
  const GemmWeights weights{.units = {.format = {}, .n = 48, .k = 256}};
  const Int8Inputs inputs{.tokens = 1, .row_bytes = 256};
  float memory = 0.0f;
  expect_refusal(weights, inputs, "multiples of 32", {},
                 {.values = &memory, .stride = 48, .tiles = true});
  expect_refusal(weights, inputs, "49 values from token to token", {},
                 {.values = &memory, .stride = 49});
}

TEST(Gemm, RefusesRowsThatStandInNoPairs) {
  GemmWeights weights{.units = {.format = {}, .n = 48, .k = 256}};
  const Int8Inputs inputs{.tokens = 1, .row_bytes = 256};
  float memory = 0.0f;
  expect_refusal(weights, inputs, "25 values from token to token", {},
                 {.values = &memory, .stride = 25, .pairs = true});
  expect_refusal(weights, inputs, "multiples of 64", {},
                 {.values = &memory, .stride = 24, .pairs = true, .tiles = true});
  weights.units.n = 40;
  expect_refusal(weights, inputs, "multiples of 16", {},
                 {.values = &memory, .stride = 20, .pairs = true});
  EXPECT_THROW(gemm_int8({}, weights, nullptr, inputs, {}, nullptr), core::Error);
  EXPECT_THROW(
      gemm_int8({}, weights, nullptr, inputs, {.y = &memory, .half = {&memory, 20}}, nullptr),
      core::Error);
}

}  // namespace
}  // namespace nibble::ops::cuda
