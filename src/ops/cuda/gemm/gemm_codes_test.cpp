#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/gemm/code_output_for_tests.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/gemm/gemm_on_device_for_tests.h"
#include "ops/cuda/gemm/gemm_test_data.h"
#include "ops/cuda/gemm/half_output_for_tests.h"

// Results as codes of one scale, against those of the same product as float16.
namespace nibble::ops::cuda {
namespace {

struct Shape {
  int tokens;
  int rows;
  int columns;
};

// Rows are multiples of 32, of 64 or not; tokens fill tiles or don't.
constexpr Shape kShapes[] = {{1, 32, 128},    {75, 320, 416}, {64, 512, 1152},
                             {290, 288, 256}, {520, 96, 768}, {200, 1056, 384}};

class GemmCodesTest : public device::GpuTest {
 protected:
  void check(const WeightKind& kind, int input_group) {
    std::mt19937 random(31);
    for (const Shape& shape : kShapes) {
      const TestWeights weights = make_weights(kind, shape.rows, shape.columns, random);
      const PlainInt8Inputs inputs =
          make_int8_inputs(shape.tokens, shape.columns, input_group, -8, 7, random);
      std::vector<float> bias(static_cast<std::size_t>(shape.rows));
      std::normal_distribution<float> normal;
      std::generate(bias.begin(), bias.end(), [&] { return normal(random); });
      const OnDevice on_device(weights);
      const Int8OnDevice there(inputs);
      const Buffer biases = Buffer::of<float>(bias);
      for (const GemmPlan& plan : gemm_plans(on_device.view, there.kind)) {
        check_plan(shape, plan, [&](GemmOutput to) {
          const device::cuda::Stream stream;
          to.bias = biases.as<float>();
          gemm_int8(plan, on_device.view, nullptr, there.view, to, stream.get());
          stream.synchronize();
        });
      }
    }
  }

 private:
  // Some codes are cut; activations take turns.
  template <class Run>
  void check_plan(const Shape& shape, const GemmPlan& plan, Run&& run) {
    const auto activation = static_cast<MlpActivation>(runs_++ % 5);
    const std::string what = std::string(plan.wgmma ? "wgmma " : "mma ") +
                             std::to_string(plan.row_tile) + " x " +
                             std::to_string(plan.token_tile) + ", " + std::to_string(shape.tokens) +
                             " tokens, " + std::to_string(shape.rows) + " rows";
    const auto halves =
        half_results(shape.tokens, shape.rows, {.stride = shape.rows, .activation = activation},
                     [&](const HalfOutput& to) { run({.half = to}); });
    const float largest = *std::max_element(halves.begin(), halves.end());
    for (const int bits : {8, 4}) {
      const float top = bits == 8 ? 127.0f : 7.0f;
      expect_codes(shape.tokens, halves,
                   {.stride = shape.rows + 16 * bits,
                    .activation = activation,
                    .scale = 0.7f * std::max(largest, 1.0f) / top,
                    .bits = bits},
                   what, [&](const CodeOutput& to) { run({.codes = to}); });
    }
  }

  int runs_ = 0;
};

TEST_F(GemmCodesTest, OfInt8Weights) {
  check({.codes = CodeKind::kInt8, .group = 0}, 0);
  check({.codes = CodeKind::kInt8, .group = 128}, 0);
}
TEST_F(GemmCodesTest, OfInt4Weights) {
  check({.group = 0}, 0);
  check({.codes = CodeKind::kInt4WithZeros, .group = 0}, 0);
  check({.group = 128}, 0);
  check({.group = 128}, 128);
}

// Beyond +-65504, and NaN, is noticed.
TEST_F(GemmCodesTest, NoticeTheEndOfTheRange) {
  constexpr int kRows = 64;
  std::mt19937 random(32);
  const OnDevice weights(make_weights({.codes = CodeKind::kInt8, .group = 0}, kRows, 128, random));
  const PlainInt8Inputs inputs = make_int8_inputs(3, 128, 0, -8, 7, random);
  const Buffer codes = Buffer::of<std::int8_t>(in_tile_order(inputs, 128));
  const Buffer scales = Buffer::of<float>(inputs.scales);
  const Int8Inputs view{.codes = codes.as<std::int8_t>(),
                        .tokens = 3,
                        .row_bytes = 128,
                        .scales = scales.as<float>()};
  for (const float large : {0.0f, 1e9f, -1e9f}) {
    std::vector<float> bias(kRows);
    bias[37] = large;
    const Buffer biases = Buffer::of<float>(bias);
    const auto run = [&](GemmOutput to) {
      const device::cuda::Stream stream;
      to.bias = biases.as<float>();
      gemm_int8(plan_gemm(weights.view, GemmInputs::kInt8, 3), weights.view, nullptr, view, to,
                stream.get());
      stream.synchronize();
    };
    const auto halves =
        half_results(3, kRows, {.stride = kRows}, [&](const HalfOutput& to) { run({.half = to}); });
    expect_codes(3, halves, {.stride = kRows, .scale = 0.05f}, std::to_string(large),
                 [&](const CodeOutput& to) { run({.codes = to}); });
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
