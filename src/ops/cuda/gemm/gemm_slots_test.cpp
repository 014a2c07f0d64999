#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/gemm/gemm_on_device_for_tests.h"
#include "ops/cuda/gemm/gemm_reference.h"
#include "ops/cuda/gemm/gemm_test_data.h"
#include "ops/cuda/gemm/half_output_for_tests.h"

namespace nibble::ops::cuda {
namespace {

class GemmSlotsTest : public device::GpuTest {
 protected:
  // Runs each plan whose inputs stay, on two blocks that have four strips each, many times, and
  // wants the same result: slow stores of one warpgroup (tile order; rows that are no multiple of
  // 16 bytes) delay what the other one reads of its slots, which the next copies are after.
  static void check(const WeightKind& kind) {
    constexpr int kTokens = 128;
    constexpr int kRows = 512;
    constexpr int kColumns = 1152;
    constexpr int kRuns = 100;
    std::mt19937 random(29);
    const TestWeights weights = make_weights(kind, kRows, kColumns, random);
    const PlainInt8Inputs inputs = make_int8_inputs(kTokens, kColumns, 0, -127, 127, random);
    const std::vector<float> bias(kRows, 0.0f);
    const std::vector<float> expected =
        rounded_to(core::DType::kF16, reference_gemm_int8(weights.plain, nullptr, inputs, bias));
    const OnDevice on_device(weights);
    const Int8OnDevice there(inputs);
    int plans = 0;
    for (GemmPlan plan : gemm_plans(on_device.view, there.kind)) {
      if (!plan.keeps_inputs()) {
        continue;
      }
      ++plans;
      plan.blocks = 2;
      for (int run = 0; run < 4 * kRuns; ++run) {
        const HalfOutput form{.stride = run % 2 == 0 ? 520 : 522, .tiles = run / 2 % 2 == 0};
        const auto y = half_results(kTokens, kRows, form, [&](const HalfOutput& to) {
          const device::cuda::Stream stream;
          gemm_int8(plan, on_device.view, nullptr, there.view, {.half = to}, stream.get());
          stream.synchronize();
        });
        const auto place = first_difference(y, expected);
        ASSERT_EQ(place, -1) << "run " << run << " with " << plan.token_tile << " tokens: token "
                             << place / kRows << ", row " << place % kRows;
      }
    }
    if (plans == 0) {
      GTEST_SKIP() << "needs products of warpgroups (sm_90a)";
    }
  }
};

TEST_F(GemmSlotsTest, OfInt8AreReadBeforeTheyAreFilledAgain) {
  check({.codes = CodeKind::kInt8, .group = 0});
}
TEST_F(GemmSlotsTest, OfInt4AreReadBeforeTheyAreFilledAgain) {
  check({.group = 0});
}

}  // namespace
}  // namespace nibble::ops::cuda
