// Which kernels compute E4M3 weights.

#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cuda/linear/linear_kernels.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kTokens[] = {1, 8, 9, 17, 65, 512};

struct Layer {
  LinearProblem linear;
  LayerPlan plan;

  Layer(const std::string& scheme, bool sm90a) {
    linear.scheme = formats::parse_scheme(scheme);
    linear.n = 4096;
    linear.k = 4096;
    plan = plan_layer(linear_shape(linear.scheme, linear.n, linear.k),
                      Schedules({"NVIDIA Test", 132, 13}), {132, sm90a});
  }
  LayerProblem of(std::int64_t m, const Epilogue& epilogue = {}) const {
    LayerProblem problem{linear, plan};
    problem.linear.m = m;
    problem.linear.epilogue = epilogue;
    return problem;
  }
};

TEST(Fp8Kernels, GemmTakesAnyNumberOfTokens) {
  for (const char* scheme : {"fp8-row", "fp8-tensor", "fp8-row-afp8", "fp8-tensor-afp8"}) {
    for (const bool sm90a : {true, false}) {
      const Layer layer(scheme, sm90a);
      const bool rounds = !layer.linear.scheme.activation.is_float();
      EXPECT_EQ(layer.plan.shape.format.codes, CodeKind::kE4m3);
      EXPECT_TRUE(layer.plan.shape.row_scale);
      for (const std::int64_t m : kTokens) {
        if (rounds && !sm90a) {
          EXPECT_THROW(choose_kernel(linear_kernels(), layer.of(m)), core::Error);
          continue;
        }
        const LinearKernel& kernel = choose_kernel(linear_kernels(), layer.of(m));
        EXPECT_EQ(kernel.name, "gemm") << scheme << " " << m;
        EXPECT_EQ(kernel.input_form(layer.of(m)),
                  rounds ? InputForm::kE4m3 : InputForm::kFloat16Tiles);
        EXPECT_FALSE(kernel.refusal(layer.of(m, {.adds = true})));
      }
    }
  }
}

TEST(Fp8Kernels, WhatOtherDevicesCanTakeInsteadIsSaid) {
  try {
    choose_kernel(linear_kernels(), Layer("fp8-row-afp8", false).of(3));
    ADD_FAILURE() << "was taken";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("recipe fp8"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
