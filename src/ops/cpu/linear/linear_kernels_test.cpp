#include "ops/cpu/linear/linear_kernels.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/cpu_features.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/packed/test_problems.h"

namespace nibble::ops::cpu {
namespace {

constexpr auto kInt8 = ActivationPrecision::kInt8;
constexpr auto kInt16 = ActivationPrecision::kInt16;
constexpr auto kFloat = ActivationPrecision::kFloat;

LayerProblem problem(const std::string& scheme, ActivationPrecision activations) {
  LayerProblem problem;
  problem.linear.scheme = formats::parse_scheme(scheme);
  problem.linear.n = 64;
  problem.linear.k = 128;
  problem.activations = activations;
  return problem;
}

std::string kernel_of(const LayerProblem& problem) {
  return choose_kernel(linear_kernels(), problem).name;
}

std::string fastest_sparse() {
  return cpu_features().avx512vnni ? "sparse-avx512vnni"
         : cpu_features().avx2     ? "sparse-avx2"
                                   : "sparse-scalar";
}

/// What multiplies weights in 16 bits with tile registers: `plain` on machines without them.
std::string in_tiles(const std::string& plain) {
  const FloatTiles* const tiles = architecture_float_tiles();
  return tiles != nullptr && tiles->runs_here() ? plain + '-' + tiles->name : plain;
}

/// The same where no variant is named.
std::string by_default(const std::string& plain) {
  return kFloatTilesByDefault ? in_tiles(plain) : plain;
}

TEST(CpuLinearKernels, AreChosenByFormatAndActivations) {
  const std::string fastest = std::string("packed-") + choose_variant(nullptr).name;
  struct Rule {
    const char* scheme;
    ActivationPrecision activations;
    std::string kernel;
  };
  for (const Rule& rule : {Rule{"f16", kInt8, by_default("dense")},
                           {"bf16", kFloat, by_default("dense")},
                           {"f32", kFloat, "dense"},
                           {"int4-sym-g128", kInt8, fastest},
                           {"int4-sym-g128", kInt16, fastest},
                           {"int4-sym-g128", kFloat, "decoded"},
                           {"lut4-row-g128", kFloat, "decoded"},
                           {"int8-sym-row-a8", kInt8, fastest},
                           {"int8-sym-row-a8", kInt16, fastest},
                           {"int8-sym-row-a8", kFloat, fastest},
                           {"int4-asym-g16-bsr", kFloat, "decoded"},
                           {"int4-asym-g16-bsr", kInt8, fastest_sparse()},
                           {"int8-asym-g16-bsr-a8", kInt8, fastest_sparse()},
                           {"int4-asym-g8-bsr", kInt16, fastest_sparse()},
                           {"int3-sym-g16-bsr", kInt8, fastest_sparse()},
                           {"int4-asym-g16-bsr-t16", kInt8, fastest_sparse()},
                           {"int4-asym-g16-bsr-t16", kInt16, fastest_sparse()},
                           {"int4-asym-g16-bsr-t16", kFloat, "decoded"},
                           {"int8-asym-g16-bsr-t16-a8", kInt8, fastest_sparse()},
                           {"int4-sym-g128-2of4", kInt8, fastest},
                           {"int4-sym-g128-2of4", kFloat, "decoded"},
                           {"int8-sym-row-2of4-a8", kInt16, fastest},
                           {"f16-g16-bsr", kInt8, "sparse-f16"},
                           {"f16-g8-bsr", kInt16, "sparse-f16"},
                           {"f16-g64-bsr", kFloat, "sparse-f16"},
                           {"f16-2of4", kInt8, by_default("dense-whole")},
                           {"bf16-2of4", kFloat, by_default("dense-whole")},
                           {"mxfp4", kInt8, fastest}}) {
    for (const std::int64_t m : {1, 13, 512}) {
      LayerProblem wanted = problem(rule.scheme, rule.activations);
      wanted.linear.m = m;
      EXPECT_EQ(kernel_of(wanted), rule.kernel) << rule.scheme;
    }
  }
}

TEST(CpuLinearKernels, OfAVariantAreTakenWhereItIsNamed) {
  LayerProblem wanted = problem("int4-sym-g128", kInt8);
  for (const Variant& variant : variants()) {
    wanted.named = &variant;
    if (variant.runs_here()) {
      EXPECT_EQ(kernel_of(wanted), std::string("packed-") + variant.name);
    } else {
      EXPECT_THROW(kernel_of(wanted), core::Error) << variant.name;
    }
  }
}

// Floats go through tile registers where a variant with them is named.
TEST(CpuLinearKernels, OfFloatsTakeTileRegistersWhereTheyAreAskedFor) {
  for (const char* scheme : {"bf16", "f16", "f16-2of4"}) {
    const std::string plain = std::string(scheme) == "f16-2of4" ? "dense-whole" : "dense";
    LayerProblem wanted = problem(scheme, kFloat);
    EXPECT_EQ(kernel_of(wanted), by_default(plain));
    for (const Variant& variant : variants()) {
      if (variant.runs_here()) {
        wanted.named = &variant;
        EXPECT_EQ(kernel_of(wanted), variant.has_tile_registers ? in_tiles(plain) : plain);
      }
    }
  }
}

// A variant that is named may have a kernel of block-sparse rows, or that of a variant before it.
TEST(CpuLinearKernels, OfBlockSparseRowsNeedNoMoreThanTheNamedVariant) {
  LayerProblem wanted = problem("int4-asym-g16-bsr", kInt8);
  for (const Variant& variant : variants()) {
    wanted.named = &variant;
    if (variant.runs_here()) {
      const std::string name = variant.name;
      EXPECT_EQ(kernel_of(wanted), name == "scalar" || name.starts_with("neon") ? "sparse-scalar"
                                   : name.starts_with("avx512") || name.starts_with("amx")
                                       ? "sparse-avx512vnni"
                                       : "sparse-avx2");
    }
  }
}

TEST(CpuLinearKernels, SchedulesNameTheBitsThatAreRead) {
  for (const auto& [scheme, bits] : {std::pair{"int3-sym-g128", "weights of 3 bits"},
                                     {"lut2-row-g128", "weights of 2 bits"},
                                     {"mxfp4", "weights of 4 bits"},
                                     {"int8-sym-row-a8", "weights of 8 bits"}}) {
    for (const std::int64_t m : {1, 512}) {
      LayerProblem wanted = problem(scheme, kInt8);
      wanted.linear.m = m;
      const std::string schedule = choose_kernel(linear_kernels(), wanted).schedule(wanted);
      EXPECT_NE(schedule.find(bits), std::string::npos) << schedule;
    }
  }
}

// Tiles take over from 16 tokens on, or from 32 in small groups, where AVX-512 has panels from 17,
// or, where it takes two turns, not yet.
TEST(CpuLinearKernels, SchedulesSayWhereTileRegistersTakeOver) {
  const int of_small_groups = cpu_features().halves512 ? 31 : 16;
  for (const Variant& variant : variants()) {
    if (std::string(variant.name) != "amxint8") {
      continue;
    }
    for (const auto& [scheme, most] : {std::pair{"int4-sym-g128", 15},
                                       {"int8-sym-row-a8", 15},
                                       {"int4-sym-g32", of_small_groups}}) {
      LayerProblem wanted = problem(scheme, kInt8);
      const auto is_direct = [&](std::int64_t m) {
        wanted.linear.m = m;
        return packed_kernel(variant).schedule(wanted).find("on their way") != std::string::npos;
      };
      EXPECT_TRUE(is_direct(most)) << scheme;
      EXPECT_FALSE(is_direct(most + 1)) << scheme;
    }
  }
}

TEST(CpuLinearKernels, SayWhyTheyRefuse) {
  LayerProblem wanted = problem("f16", kInt8);
  for (const KernelAnswer& answer : answers_of(linear_kernels(), wanted)) {
    const std::string text = answer.refusal ? answer.refusal->text() : "";
    if (answer.kernel == "dense" || answer.kernel == by_default("dense")) {
      EXPECT_EQ(text, "");
    } else if (answer.kernel == "dense-amxbf16") {
      EXPECT_TRUE(text.starts_with("this machine lacks AMX-BF16") ||
                  text.ends_with("NIBBLE_ISA=amxint8 asks for it"))
          << text;
    } else {
      EXPECT_EQ(text, "weights are dense");
    }
  }
  wanted = problem("int4-sym-g128", kInt8);
  wanted.named = &variants().front();
  for (const KernelAnswer& answer : answers_of(linear_kernels(), wanted)) {
    EXPECT_EQ(!answer.refusal, answer.kernel == "packed-scalar") << answer.kernel;
    EXPECT_TRUE(!answer.refusal || answer.refusal->text().size() > 10) << answer.kernel;
  }
  wanted.named = nullptr;
  wanted.linear.epilogue.adds = true;
  EXPECT_TRUE(choose_kernel(linear_kernels(), problem("f16", kInt8)).refusal(wanted));
  wanted.linear.epilogue = {.half = true};
  EXPECT_TRUE(choose_kernel(linear_kernels(), problem("f16", kInt8)).refusal(wanted));
}

class CpuLinearLayers : public ::testing::Test {
 protected:
  static LinearSet set_of(const std::string& scheme) {
    LinearSet set;
    set.id = 0;
    set.parts.push_back({"layer", testing::random_weight(scheme, 4, 128, 1), {}});
    return set;
  }
  static void run(CpuOps& ops, const LinearSet& set) {
    CpuOps::Input input(ops.zeros(1, 128));
    ops.linear(input, set);
  }
};

TEST_F(CpuLinearLayers, WithoutTheirLayoutAreRefused) {
  CpuOps ops({1, kInt8});
  const LinearSet set = set_of("int4-sym-g128");
  EXPECT_THROW(run(ops, set), core::Error);
  ops.prepare(set);
  EXPECT_GT(ops.prepared_bytes(), 0);
  EXPECT_EQ(ops.unprepared_bytes(set), 0);
  run(ops, set);
  ops.release(set);
  EXPECT_THROW(run(ops, set), core::Error);
}

// Calibration and gradients look at compressed layers in float.
TEST(CpuLinearKernels, InFloatNeedNoLayout) {
  LayerProblem wanted = problem("int8-sym-row-a8", kFloat);
  wanted.prepared = false;
  EXPECT_EQ(kernel_of(wanted), "decoded");
  wanted.activations = kInt8;
  EXPECT_THROW(kernel_of(wanted), core::Error);
  wanted = problem("f16-g16-bsr", kInt8);
  wanted.prepared = false;
  EXPECT_EQ(kernel_of(wanted), "decoded");
}

TEST_F(CpuLinearLayers, OfTwoOfFourFloatsAreMadeWhole) {
  constexpr std::int64_t kInputs = 132;
  std::vector<float> values(static_cast<std::size_t>(7 * kInputs));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 4 == i / 4 % 4 || i % 4 == 3 ? static_cast<float>(i % 31) - 15.0f : 0.0f;
  }
  const std::span rows(values);
  const auto part = [&](std::string_view scheme, std::int64_t first, std::int64_t count) {
    return formats::round_to_nearest(rows.subspan(static_cast<std::size_t>(first * kInputs),
                                                  static_cast<std::size_t>(count * kInputs)),
                                     count, kInputs, formats::parse_scheme(scheme));
  };
  const auto results = [&](const std::string& scheme) {
    LinearSet set;
    set.id = 0;
    set.parts.push_back({"first", part(scheme, 0, 3), {}});
    set.parts.push_back({"second", part(scheme, 3, 4), {}});
    CpuOps ops({2, kInt8});
    ops.prepare(set);
    EXPECT_EQ(ops.prepared_bytes(), scheme == "f16" ? 0 : std::int64_t{2} * 7 * kInputs);
    Matrix x = ops.zeros(3, kInputs);
    for (std::int64_t i = 0; i < 3 * kInputs; ++i) {
      x.row(i / kInputs)[i % kInputs] = static_cast<float>(i % 17) - 8.0f;
    }
    CpuOps::Input input(std::move(x));
    const Matrix y = ops.linear(input, set);
    return std::vector<float>(y.values().begin(), y.values().end());
  };
  EXPECT_EQ(results("f16-2of4"), results("f16"));
}

TEST_F(CpuLinearLayers, ThatAreReadAsTheyLieNeedNone) {
  CpuOps ops({1, kFloat});
  const LinearSet set = set_of("int4-sym-g128");
  run(ops, set);
  ops.prepare(set);
  EXPECT_EQ(ops.prepared_bytes(), 0);
  EXPECT_EQ(ops.unprepared_bytes(set), formats::stored_bytes(set.parts[0].weight));
  run(ops, set);
}

}  // namespace
}  // namespace nibble::ops::cpu
