// Which kernels compute E4M3 weights.

#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "ops/cuda/linear/linear_kernels.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kTokens[] = {1, 8, 16, 17, 65, 512};

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

std::string_view expected(bool rounds, bool sm90a, std::int64_t m) {
  return !rounds && sm90a && m <= 16 ? "fp8-few" : "fp8-gemm";
}

TEST(Fp8Kernels, TakeAnyNumberOfTokens) {
  for (const char* scheme : {"fp8-row", "fp8-tensor", "fp8-row-afp8", "fp8-tensor-afp8"}) {
    for (const bool sm90a : {true, false}) {
      const Layer layer(scheme, sm90a);
      const bool rounds = !layer.linear.scheme.activation.is_float();
      EXPECT_EQ(layer.plan.shape.format.codes, CodeKind::kBytes);
      EXPECT_TRUE(layer.plan.shape.row_scale);
      for (const std::int64_t m : kTokens) {
        if (rounds && !sm90a) {
          EXPECT_THROW(choose_kernel(linear_kernels(), layer.of(m)), core::Error);
          continue;
        }
        const LinearKernel& kernel = choose_kernel(linear_kernels(), layer.of(m));
        EXPECT_EQ(kernel.name, expected(rounds, sm90a, m)) << scheme << " " << m;
        EXPECT_EQ(kernel.input_form(layer.of(m)),
                  rounds ? InputForm::kByteTiles : InputForm::kFloat16Tiles);
        EXPECT_FALSE(kernel.refusal(layer.of(m, {.adds = true})));
      }
    }
  }
}

// What is measured of a shape is found again, and is no other format's.
TEST(Fp8Kernels, SchedulesAreKeptByTheNameOfTheFormat) {
  Schedules schedules({"NVIDIA Test", 132, 13});
  LinearSchedules measured;
  measured.shape = linear_shape(formats::parse_scheme("fp8-row-afp8"), 4096, 4096);
  EXPECT_EQ(to_string(measured.shape), "fp8 row, fp8 inputs, 4096 x 4096");
  measured.many = {{1, GemmPlan{.wgmma = true, .token_tile = 32, .blocks = 131}, 9.0},
                   {64, GemmPlan{.wgmma = true, .token_tile = 64, .blocks = 130}, 12.0}};
  schedules.add(measured);
  const core::Json json = schedules.to_json();
  const Schedules read = Schedules::from_json(json, "file.json");
  EXPECT_EQ(read.to_json(), json);
  const LayerPlan plan = plan_layer(measured.shape, read, {132, true});
  EXPECT_EQ(plan.most_few, 0) << "there are no launches for few tokens";
  ASSERT_NE(plan.measured_choice(1), nullptr);
  EXPECT_EQ(plan.measured_choice(1)->plan->blocks, 131);
  EXPECT_EQ(plan.measured_choice(50)->plan->blocks, 130);
  core::Json other = json;
  other["layers"][0]["code"] = "e5m2";
  EXPECT_THROW(Schedules::from_json(other, "file.json"), core::Error) << "no kernel has plans";
  other["layers"][0].erase("code");
  EXPECT_THROW(Schedules::from_json(other, "file.json"), core::Error);
}

// Its bytes are not theirs: kernels of integers and books refuse them, whatever they mean.
TEST(Fp8Kernels, OthersAskForWhatTheyKnow) {
  const Layer layer("fp8-row", true);
  for (const std::int64_t m : kTokens) {
    for (const KernelAnswer& answer : answers_of(linear_kernels(), layer.of(m))) {
      EXPECT_TRUE(answer.refusal || answer.kernel.starts_with("fp8-")) << answer.kernel;
    }
  }
  LinearShape shape = layer.plan.shape;
  ASSERT_NE(planned_product(shape), nullptr);
  shape.code = "e5m2";
  EXPECT_EQ(planned_product(shape), nullptr);
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
