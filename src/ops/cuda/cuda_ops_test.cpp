#include "ops/cuda/cuda_ops.h"

#include <cmath>
#include <span>
#include <string>

#include "core/error.h"
#include "core/tensor.h"
#include "ops/cpu/elementwise.h"
#include "ops/cuda/cuda_layers_for_tests.h"
#include "ops/cuda/dense/dense_reference.h"
#include "ops/cuda/schedules/choose_schedules.h"
#include "ops/cuda/schedules/schedule_fields.h"

// Whole layers on a GPU, from float input to result, beside the CPU's integers.
namespace nibble::ops::cuda {
namespace {

// A code that differs moves a sum by far more than float32 arithmetic does.
class RoundedCudaLayers : public CudaLayers {
 protected:
  void expect_integers_of_the_cpu(std::span<const char* const> schemes,
                                  std::span<const std::int64_t> tokens) {
    CudaOps ops({});
    std::uint64_t seed = 1;
    for (const std::string scheme : schemes) {
      for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{37, 416}, {200, 1152}}) {
        const auto weight = cpu::testing::random_weight(scheme, n, k, ++seed);
        for (const std::int64_t m : tokens) {
          std::vector<float> x = cpu::testing::random_input(m, k, ++seed);
          for (std::size_t i = 3; i < x.size(); i += 97) {
            x[i] *= 20.0f;
          }
          expect_near(run(ops, single(weight), x, m), n, 0, reference(weight, x, m), n, 4e-6,
                      scheme + ", " + std::to_string(m) + " tokens");
        }
      }
    }
  }
};

TEST_F(RoundedCudaLayers, GiveTheIntegersOfTheCpu) {
  constexpr const char* kSchemes[] = {"int4-sym-g128-a8",
                                      "int8-sym-row-a8",
                                      "int8-sym-tensor-a8",
                                      "int4-sym-g128-a4g128",
                                      "int4-sym-row-a8-order",
                                      "int4-sym-g128-a4g128-tail128",
                                      "int4-sym-g128-a4g128c0.9-h128-tail128",
                                      "int4-sym-g128-a4-tail128",
                                      "int3-asym-g32-a8-tail40",
                                      "int4-sym-g128-a4g128-tail200",
                                      "int4-sym-row-a4-asym-tail128",
                                      "int4-sym-g128-a4-asym",
                                      "int8-sym-row-a8-asym",
                                      "int4-asym-g32-a8-asym",
                                      "int4-sym-g128-a8g64-asym",
                                      "lut4-nf4-g64-a8-asym",
                                      "int8-sym-row-a8s",
                                      "int4-asym-g64-a8s",
                                      "int4-sym-g128-a4s",
                                      "int3-sym-row-a3s",
                                      "int8-sym-row-a8o",
                                      "int4-asym-g64-a8o",
                                      "lut4-row-g128-a8o",
                                      "mxfp4-a8o",
                                      "nvfp4-a8o",
                                      "int8-asym-g16-a8o-asym",
                                      "int4-sym-g32-a8g32",
                                      "int4-asym-g128-a8g64",
                                      "int4-sym-g128-a8g256",
                                      "int4-sym-g48-a8",
                                      "int3-sym-row-a3",
                                      "int4-sym-g128-a3-asym",
                                      "nvfp4-a8",
                                      "mxfp4-a4g32",
                                      "int4-sym-g128-a4-hrow",
                                      "int8-sym-row-a8-h128",
                                      "int4-sym-g128-a4-asym-h128",
                                      "int8-sym-row-2of4-a8",
                                      "int4-asym-g128-2of4-a8",
                                      "int4-sym-row-2of4-a8s",
                                      "int4-sym-g256-2of4-a4"};
  constexpr std::int64_t kTokens[] = {1, 5, 19, 70};
  expect_integers_of_the_cpu(kSchemes, kTokens);
}

// By all kernels that meet doubles of E2M1 numbers, and those of tails behind books.
TEST_F(RoundedCudaLayers, OfE2m1NumbersGiveTheIntegersOfTheCpu) {
  constexpr const char* kSchemes[] = {"lut4-fp4-g128-afp4g128-tail128",
                                      "lut4-fp4-g128-afp4g128c0.9-h128-tail128",
                                      "lut4-fp4-g128-afp4g128-tail16",
                                      "lut4-fp4-row-afp4-tail40",
                                      "lut4-fp4-g128-afp4g256-tail200",
                                      "lut4-nf4-g64-a8-tail32",
                                      "lut4-af4-g128-a8g128-tail48",
                                      "lut4-row-g128-a8g128",
                                      "lut3-row-row-a8g128",
                                      "lut4-fp4-g128-afp4",
                                      "lut4-fp4-g32-afp4o",
                                      "int4-sym-g128-afp4g128",
                                      "int4-asym-row-afp4",
                                      "int3-sym-g128-afp4g128-tail128",
                                      "int4-sym-g16-afp4",
                                      "int4-asym-g16-afp4g48",
                                      "int8-sym-row-afp4",
                                      "int8-sym-row-afp4o",
                                      "int8-asym-g128-afp4g128",
                                      "int4-sym-g128-afp4-hrow",
                                      "int4-sym-row-afp4-order",
                                      "mxfp4-afp4g32",
                                      "nvfp4-afp4",
                                      "int4-sym-row-2of4-afp4"};
  constexpr std::int64_t kTokens[] = {1, 8, 9, 16, 17, 32, 33, 65, 300};
  expect_integers_of_the_cpu(kSchemes, kTokens);
}

constexpr double kDigits = 2e-4;  // two INT8 digits
constexpr double kHalf = 4e-3;    // float16, for many tokens

// With the same magnitude throughout, against the length of the row and of the input: single groups
// may cancel out.
cpu::PackedReference level(cpu::PackedReference expected) {
  double magnitude = 0.0;
  for (const double each : expected.magnitude) {
    magnitude += each / static_cast<double>(expected.magnitude.size());
  }
  std::fill(expected.magnitude.begin(), expected.magnitude.end(), magnitude);
  return expected;
}

TEST_F(CudaLayers, FloatActivationsComeNear) {
  CudaOps ops({});
  std::uint64_t seed = 1;
  for (const std::string scheme : {"int4-asym-g128-h128", "lut4-nf4-g64-hrow", "int8-sym-row-h32",
                                   "nvfp4", "nvfp4-h16", "int4-sym-g48", "lut4-matrix-g16"}) {
    for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{37, 416}, {200, 1152}}) {
      const auto weight = cpu::testing::random_weight(scheme, n, k, ++seed);
      for (const std::int64_t m : {1, 8, 21}) {
        const std::vector<float> x = cpu::testing::random_input(m, k, ++seed);
        expect_near(run(ops, single(weight), x, m), n, 0, level(reference(weight, x, m)), n,
                    m > 8 ? kHalf : kDigits, scheme + ", " + std::to_string(m) + " tokens");
      }
    }
  }
}

// Each part has an order, or a scale of its inputs, of its own; two have a bias, or an adapter over
// it.
TEST_F(CudaLayers, PartsStandSideBySide) {
  const std::int64_t k = 384;
  const std::int64_t m = 6;
  for (const std::string scheme : {"int4-sym-g128-a4g128-tail128", "int8-sym-row-a8",
                                   "int8-sym-row-a8s", "int8-sym-row-2of4-a8", "f16"}) {
    CudaOps ops({});  // which knows dense weights by their addresses
    const bool dense = scheme == "f16";
    LinearSet set;
    set.id = 0;
    for (const std::int64_t n : {std::int64_t{64}, std::int64_t{128}, std::int64_t{21}}) {
      const auto seed = static_cast<std::uint64_t>(n);
      Linear part{"layer", {}, {}};
      if (dense) {
        part.weight = formats::dense_weight(
            core::from_float32(cpu::testing::random_input(n, k, seed), {n, k}, core::DType::kF16));
      } else {
        part.weight = cpu::testing::random_weight(scheme, n, k, seed);
        if (part.weight.scheme.activation.stored_scale) {
          part.weight = formats::with_input_scale(std::move(part.weight), n == 128 ? 0.05f : 0.1f);
        }
      }
      set.parts.push_back(part);
    }
    set.parts[0].bias = cpu::testing::random_input(1, 64, 5);
    set.parts[2].bias = cpu::testing::random_input(1, 21, 6);
    const std::int64_t rank = 8;
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      const std::int64_t n = set.parts[i].weight.n;
      const auto matrix = [](std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
        return formats::dense_weight(core::from_float32(
            cpu::testing::random_input(rows, columns, seed), {rows, columns}, core::DType::kBF16));
      };
      set.parts[i].low_rank = LowRank{matrix(rank, k, 11 + i), matrix(n, rank, 21 + i), 0.125f};
    }
    const std::vector<float> x = cpu::testing::random_input(m, k, 9);
    const std::vector<float> y = run(ops, set, x, m);
    std::int64_t column = 0;
    for (const Linear& part : set.parts) {
      const std::int64_t n = part.weight.n;
      cpu::PackedReference expected;
      if (dense) {
        expected.y.resize(static_cast<std::size_t>(m * n));
        expected.magnitude.resize(expected.y.size(), 100.0);
        add_products(part.weight, rounded_to(core::DType::kF16, x), m, 1.0, expected.y);
      } else {
        expected = reference(part.weight, x, m);
      }
      for (std::size_t i = 0; i < expected.y.size(); ++i) {
        expected.magnitude[i] += 10.0;
        expected.y[i] += part.bias.empty() ? 0.0 : part.bias[i % static_cast<std::size_t>(n)];
      }
      if (part.low_rank) {
        std::vector<double> down(static_cast<std::size_t>(m * rank));
        add_products(part.low_rank->a, x, m, 1.0, down);
        add_products(part.low_rank->b, {down.begin(), down.end()}, m, part.low_rank->scale,
                     expected.y);
      }
      expect_near(y, set.n(), column, expected, n, 4e-6,
                  scheme + ", from " + std::to_string(column));
      column += n;
    }
  }
}

// Dense parts of one type run as one layer, whose input is rounded to that type unless it is to be
// exact; the product adds to the residual stream.
TEST_F(CudaLayers, DenseLayersReadTheirOwnType) {
  const std::int64_t k = 200;
  const std::vector<std::int64_t> rows = {48, 21};
  for (const core::DType type : {core::DType::kF32, core::DType::kF16, core::DType::kBF16}) {
    LinearSet set;
    set.id = 0;
    DenseReferenceProblem problem;
    problem.k = k;
    for (const std::int64_t n : rows) {
      const core::Tensor weight = core::from_float32(
          cpu::testing::random_input(n, k, static_cast<std::uint64_t>(n)), {n, k}, type);
      const std::vector<float> w = core::to_float32(weight);
      problem.weight.insert(problem.weight.end(), w.begin(), w.end());
      set.parts.push_back({"layer", formats::dense_weight(weight), {}});
      problem.n += n;
    }
    set.parts[1].bias = cpu::testing::random_input(1, rows[1], 5);
    problem.bias.assign(static_cast<std::size_t>(rows[0]), 0.0f);
    problem.bias.insert(problem.bias.end(), set.parts[1].bias.begin(), set.parts[1].bias.end());
    for (const bool exact : {false, true}) {
      CudaOps ops({}, nullptr, 0, {.exact = exact});
      UnitPacker packer(pool_, kStaging);
      ops.prepare(set, packer);
      for (const std::int64_t m : {1, 5, 33, 70}) {
        const std::vector<float> x = cpu::testing::random_input(m, k, 9);
        problem.m = m;
        problem.x = exact ? x : rounded_to(type, x);
        problem.before = cpu::testing::random_input(m, problem.n, 10);
        const DenseReference expected = reference_dense(problem);
        CudaOps::Input input = ops.input(upload(ops, x, m), set);
        CudaOps::Matrix sum = upload(ops, problem.before, m);
        EXPECT_FALSE(ops.linear(input, set, Residual<CudaOps::Matrix>{sum}));
        const std::vector<float> y = download(ops, sum);
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_NEAR(y[i], expected.y[i], expected.bounds[i])
              << core::name_of(type) << ", " << m << " tokens, " << i << (exact ? ", exact" : "");
        }
      }
    }
  }
}

// gate|up and down of an MLP on a GPU.
class GatedCudaLayers : public CudaLayers {
 protected:
  static constexpr std::int64_t kInputs = 384;
  static constexpr std::int64_t kOutputs = 72;
  static constexpr auto kActivation = MlpActivation::kSilu;

  struct Layers {
    LinearSet up;
    LinearSet down;
  };
  static Layers layers(const std::string& up, const std::string& down, std::int64_t width) {
    Layers made;
    made.up.id = 0;
    made.up.pairs = true;
    for (const std::uint64_t seed : {1, 2}) {
      made.up.parts.push_back({"layer", cpu::testing::random_weight(up, width, kInputs, seed),
                               cpu::testing::random_input(1, width, seed + 10)});
    }
    made.up.parts[1].weight.permutation = made.up.parts[0].weight.permutation;
    made.down = single(cpu::testing::random_weight(down, kOutputs, width, 3));
    made.down.id = 1;
    return made;
  }

  std::vector<float> run_gated(const Layers& layers, const std::vector<float>& x, std::int64_t m,
                               bool by_one_operator) {
    CudaOps ops({});
    UnitPacker packer(pool_, kStaging);
    ops.prepare(layers.up, packer);
    ops.prepare(layers.down, packer);
    CudaOps::Input input = ops.input(upload(ops, x, m), layers.up);
    CudaOps::Input middle =
        by_one_operator
            ? ops.linear(input, layers.up, ActivateInto{kActivation, layers.down, true})
            : ops.gated_activation(ops.linear(input, layers.up), kActivation, layers.down);
    return download(ops, ops.linear(middle, layers.down));
  }

  cpu::PackedReference gated_reference(const Layers& layers, const std::vector<float>& x,
                                       std::int64_t m) {
    std::vector<std::vector<float>> parts;
    for (const Linear& part : layers.up.parts) {
      const cpu::PackedReference y = reference(part.weight, x, m);
      std::vector<float>& result = parts.emplace_back(y.y.begin(), y.y.end());
      for (std::size_t i = 0; i < result.size(); ++i) {
        result[i] += part.bias[i % part.bias.size()];
      }
    }
    std::vector<float> middle(parts[0].size());
    cpu::activate_gated(kActivation, parts[0].data(), parts[1].data(), middle.data(),
                        std::ssize(middle));
    return reference(layers.down.parts[0].weight, middle, m);
  }
};

// Where the product joins them the bits are those of both operators if float16 is what the next
// layer reads, and else differ: results were rounded to float16 before they became integers. They
// are the same where something is added to the product, or float16 has not enough digits.
TEST_F(GatedCudaLayers, OneOperatorGivesWhatTwoGive) {
  struct Case {
    std::string up;
    std::string down;
    bool joins;  // 70 tokens, with other bits
    double tolerance;
  };
  for (const Case& each : {Case{"int4-sym-g128", "int4-sym-g128", false, kHalf},
                           {"lut4-nf4-g64", "int4-asym-g32", false, kHalf},
                           {"int8-sym-row-a8", "int8-sym-row-a8", true, 2e-2},
                           {"int4-sym-g128-a4g128", "int4-sym-g128-a4g128", true, 1e-1},
                           {"int4-sym-g128-a8g128-tail128", "int8-sym-row-a8", true, 2e-2},
                           {"lut4-fp4-g128-afp4g128-tail128", "int8-sym-row-a8", true, 2e-2},
                           {"int4-sym-g128-afp4g128", "int4-sym-g128-afp4g128", false, 1e-1},
                           {"int8-sym-row-a8-asym", "int8-sym-row-a8", false, 2e-2},
                           {"int8-sym-row-a8o", "int8-sym-row-a8", false, 2e-2},
                           {"int8-sym-row-a8", "int8-sym-row-a8-h128", false, 2e-2},
                           {"int4-asym-g16-bsr", "int4-asym-g16-bsr", false, kHalf},
                           {"int4-sym-g128", "nvfp4", false, kHalf}}) {
    for (const std::int64_t width : {256, 416}) {
      const Layers made = layers(each.up, each.down, width);
      for (const std::int64_t m : {5, 70}) {
        const std::string what = each.up + ", " + each.down + ", " + std::to_string(width) +
                                 " columns, " + std::to_string(m) + " tokens";
        const std::vector<float> x = cpu::testing::random_input(m, kInputs, 4);
        const std::vector<float> one = run_gated(made, x, m, true);
        EXPECT_EQ(one != run_gated(made, x, m, false), each.joins && m == 70) << what;
        expect_near(one, kOutputs, 0, level(gated_reference(made, x, m)), kOutputs, each.tolerance,
                    what);
      }
    }
  }
}

// Whatever kernels their tokens have, and whatever form those read, also that which joined gates
// write.
TEST_F(GatedCudaLayers, OfFewBitsTakeAnyNumberOfTokens) {
  constexpr std::int64_t kMost = 512;
  const std::vector<float> x = cpu::testing::random_input(kMost, kInputs, 4);
  for (const std::string scheme :
       {"int4-sym-g128", "int3-sym-g128", "int3-asym-g128", "int3-asym-g32", "int3-sym-g16",
        "int2-sym-row", "int2-asym-g128", "int2-sym-g64", "lut3-row-g128", "lut2-row-g128",
        "lut2-matrix-g64", "int3-sym-g128-a8", "int2-asym-row-a8", "lut2-row-g128-a8"}) {
    const Layers made = layers(scheme, scheme, 256);
    const cpu::PackedReference expected = level(gated_reference(made, x, kMost));
    // Both layers round to float16, one after the other.
    const double tolerance =
        made.down.parts[0].weight.scheme.activation.is_float() ? 2 * kHalf : 4e-2;
    for (const std::int64_t m : {1, 4, 5, 8, 9, 16, 17, 32, 33, 48, 64, 65, 100, 128, 200, 512}) {
      const cpu::PackedReference first{
          {expected.y.begin(), expected.y.begin() + m * kOutputs},
          {expected.magnitude.begin(), expected.magnitude.begin() + m * kOutputs}};
      expect_near(run_gated(made, {x.begin(), x.begin() + m * kInputs}, m, true), kOutputs, 0,
                  first, kOutputs, tolerance, scheme + ", " + std::to_string(m) + " tokens");
    }
  }
}

// Up to 64 tokens through a layer with built-in and with measured schedules.
class MeasuredCudaLayers : public CudaLayers {
 protected:
  static constexpr std::int64_t kRows = 200;
  static constexpr std::int64_t kInputs = 1152;

  std::vector<float> first(std::int64_t m) const { return {x_.begin(), x_.begin() + m * kInputs}; }

  std::vector<float> measured(std::int64_t m) {
    auto schedules = std::make_shared<Schedules>(origin_of(device::require_cuda_device()));
    schedules->add(layer_);
    CudaOps ops({}, schedules);
    return run(ops, single(weight_), first(m), m);
  }

  std::vector<float> built_in(std::int64_t m) {
    CudaOps ops({});
    return run(ops, single(weight_), first(m), m);
  }

  void expect_measured_near(std::int64_t m, double tolerance, const std::string& what) {
    expect_near(measured(m), kRows, 0, level(reference(weight_, first(m), m)), kRows, tolerance,
                what);
  }

  formats::PackedWeight weight_ =
      cpu::testing::random_weight("int4-sym-g128", kRows, kInputs, 3);  // a launch takes 16 tokens
  std::vector<float> x_ = cpu::testing::random_input(128, kInputs, 4);
  LinearSchedules layer_{linear_shape(weight_.scheme, kRows, kInputs), {}, {}, {}, {}, ""};
};

TEST_F(MeasuredCudaLayers, FewTokens) {
  layer_.few = SmallBatchSchedule{4, 3, 2};
  EXPECT_NE(built_in(5), measured(5));  // in the last bits
  EXPECT_EQ(built_in(64), measured(64));
  expect_measured_near(5, kDigits, "four warps");
}

TEST_F(MeasuredCudaLayers, MediumBatches) {
  const int multiprocessors = device::require_cuda_device().multiprocessors;
  const auto candidates = medium_candidates(layer_.shape, multiprocessors);
  bool differ = false;
  for (const MediumBatchSchedule& schedule : candidates) {
    layer_.medium = {{32, schedule, 1.0}};
    expect_measured_near(16, kDigits, to_string(schedule));
    differ = differ || measured(16) != built_in(16);
    EXPECT_EQ(measured(24), built_in(24)) << "which have more columns";
    layer_.medium = {{64, schedule, 1.0}};
    expect_measured_near(24, kHalf, to_string(schedule));
    EXPECT_EQ(measured(16), built_in(16)) << "which have fewer columns";
  }
  EXPECT_EQ(differ, !candidates.empty());
}

TEST_F(MeasuredCudaLayers, ManyTokens) {
  layer_.many = {{128, std::nullopt, 1.0}};  // launches for few tokens
  const std::vector<float> few = built_in(8);
  const std::vector<float> many = measured(128);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(built_in(128), many);
  EXPECT_EQ(built_in(96), measured(96)) << "which need fewer launches";
  for (const GemmPlan& plan : gemm_plans(weights_of(layer_.shape), layer_.shape.inputs)) {
    layer_.many = {{128, plan, 1.0}};
    expect_measured_near(128, kHalf, to_string(plan));
  }
}

TEST_F(CudaLayers, WhatHasNoKernelIsRefused) {
  CudaOps ops({});
  UnitPacker packer(pool_, kStaging);
  for (const char* scheme : {"int4-sym-g24", "int8-sym-row-a8g40", "lut4-nf4-g40-afp4-tail40"}) {
    EXPECT_THROW(ops.prepare(single(cpu::testing::random_weight(scheme, 4, 240, 1)), packer),
                 core::Error)
        << scheme;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
