#include "ops/cuda/dense/few_dense.h"

#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "ops/cuda/dense/dense_trial_for_tests.h"
#include "ops/cuda/gemm/half_output_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using FewDense = device::GpuTest;
using core::DType;
using device::cuda::Buffer;

struct Shape {
  std::int64_t n;
  std::int64_t k;
};
// Rows and inputs that fill no tile, no block and no chunk, and some that do.
constexpr Shape kShapes[] = {{1, 8},     {7, 40},     {16, 64},   {33, 72},
                             {64, 128},  {130, 264},  {200, 96},  {257, 1000},
                             {96, 4096}, {300, 1112}, {515, 2048}};

FewDenseProblem problem_of(const DenseTrial& trial, std::int64_t m, float* y, bool has_bias,
                           bool adds) {
  FewDenseProblem problem;
  problem.weight = trial.weight();
  problem.x = trial.values();
  problem.ldx = padded_columns(problem.weight.k);
  problem.m = m;
  problem.y = y;
  problem.ldy = trial.ldy();
  problem.bias = has_bias ? trial.bias() : nullptr;
  problem.adds = adds;
  return problem;
}

// Blocks with many tiles, with some, and with one at most.
constexpr FewDensePlan kPlans[] = {{1, 0}, {3, 8}, {132, 100}};

std::string name_of(const Shape& shape, const FewDensePlan& plan, std::int64_t m) {
  return std::to_string(shape.n) + " x " + std::to_string(shape.k) + ", " +
         std::to_string(plan.blocks) + " blocks, " + std::to_string(m) + " tokens";
}

TEST_F(FewDense, EveryPlanOverRaggedShapes) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    for (const Shape& shape : kShapes) {
      DenseTrial trial(type, shape.n, shape.k, kMostFewDense);
      for (const FewDensePlan& plan : kPlans) {
        for (const std::int64_t m : {1, 2, 7, 8, 9, 16, 17, 25, 32}) {
          const bool has_bias = m % 3 != 1;
          const bool adds = m % 2 == 1;
          const Buffer y = trial.target(m, adds);
          few_dense(problem_of(trial, m, y.as<float>(), has_bias, adds), plan, trial.stream());
          trial.expect(y, m, has_bias, adds, name_of(shape, plan, m));
          if (HasFatalFailure()) {
            return;
          }
        }
      }
    }
  }
}

TEST_F(FewDense, RoundsResultsToFloat16) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    for (const Shape& shape : kShapes) {
      const DenseTrial trial(type, shape.n, shape.k, kMostFewDense);
      for (const FewDensePlan& plan : kPlans) {
        for (const std::int64_t m : {1, 7, 9, 17, 32}) {
          FewDenseProblem problem = problem_of(trial, m, nullptr, m % 3 != 1, false);
          const Buffer y(m * shape.n * 4);
          problem.ldy = shape.n;
          const auto run = [&](float* to, const HalfOutput& half) {
            problem.y = to;
            problem.half = half;
            few_dense(problem, plan, trial.stream());
            device::cuda::check(cudaStreamSynchronize(trial.stream()), "cudaStreamSynchronize");
          };
          run(y.as<float>(), {});
          expect_rounded(m, y.values<float>(), shape.n + shape.n % 2 + 2, static_cast<int>(m),
                         name_of(shape, plan, m), [&](const HalfOutput& to) { run(nullptr, to); });
          if (HasFatalFailure()) {
            return;
          }
        }
      }
    }
  }
}

// Whatever shares the launch, whichever kernel that takes, and however it is divided.
TEST_F(FewDense, ATokenHasTheSameBitsAmongAnyOthers) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    for (const Shape& shape : {Shape{257, 1000}, {515, 2048}, {96, 4096}}) {
      const DenseTrial trial(type, shape.n, shape.k, kMostFewDense);
      std::vector<float> all;
      for (const FewDensePlan& plan : kPlans) {
        for (std::int64_t m = kMostFewDense; m >= 1; --m) {
          const Buffer y = trial.target(m, false);
          few_dense(problem_of(trial, m, y.as<float>(), true, false), plan, trial.stream());
          device::cuda::check(cudaStreamSynchronize(trial.stream()), "cudaStreamSynchronize");
          const std::vector<float> mine = y.values<float>();
          all = all.empty() ? mine : all;  // of the most tokens
          ASSERT_EQ(0, std::memcmp(mine.data(), all.data(), mine.size() * sizeof(float)))
              << name_of(shape, plan, m);
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
