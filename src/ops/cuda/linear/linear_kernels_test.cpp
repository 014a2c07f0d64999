#include "ops/cuda/linear/linear_kernels.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/trellis/trellis_code.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kInputs = 4096;
constexpr std::int64_t kFewRows = 8192;
constexpr std::int64_t kManyRows = 8193;
constexpr std::int64_t kTokens[] = {1, 8, 9, 16, 17, 32, 33, 64, 65, 512};

/// A layer of a scheme, as a device with schedules sees it.
struct Layer {
  LinearProblem linear;
  LayerPlan plan;

  Layer(const std::string& scheme, std::int64_t rows, bool medium, const Schedules& schedules) {
    linear.scheme = formats::parse_scheme(scheme);
    linear.n = rows;
    linear.k = kInputs;
    plan.device = {132, medium};
    if (wants_units(linear.scheme)) {
      plan = plan_layer(linear_shape(linear.scheme, rows, kInputs), schedules, {132, medium});
    }
  }
  Layer(const std::string& scheme, std::int64_t rows, bool medium)
      : Layer(scheme, rows, medium, Schedules({"NVIDIA Test", 132, 13})) {}

  LayerProblem of(std::int64_t m, const Epilogue& epilogue = {}) const {
    LayerProblem problem{linear, plan};
    problem.linear.m = m;
    problem.linear.epilogue = epilogue;
    return problem;
  }
  const LinearKernel& kernel(std::int64_t m) const {
    return choose_kernel(linear_kernels(), of(m));
  }
  /// First letters of the kernels of kTokens.
  std::string kernels() const {
    std::string letters;
    for (const std::int64_t m : kTokens) {
      letters += kernel(m).name.front();
    }
    return letters;
  }
};

struct Rule {
  const char* scheme;
  const char* sm90a;      // kernels of kTokens: dense, small-batch, medium-batch, gemm; of
                          // block-sparse rows all begin with s: below
  const char* many_rows;  // the same, with more than 8192 rows
  const char* others;     // devices without medium batches
};

// What docs/architecture.md says, written down by hand.
const Rule kRules[] = {
    {"f16", "dddddddddd", "dddddddddd", "dddddddddd"},
    {"int4-sym-g128", "ssmmmmmmgg", "ssmmmmgggg", "ssssgggggg"},
    {"int4-sym-row", "ssmmmmmmgg", "ssmmmmgggg", "ssssgggggg"},
    {"int3-sym-g256", "ssmmmmmmgg", "ssmmmmgggg", "ssgggggggg"},
    {"int2-asym-g128", "ssmmmmmmgg", "ssmmmmgggg", "ssgggggggg"},
    {"lut3-row-g128", "ssmmmmmmgg", "ssmmmmgggg", "ssgggggggg"},
    {"lut2-row-g64", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"int3-asym-g16", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"int3-sym-g128-a8", "ssssmmgggg", "ssssmmgggg", "ssssgggggg"},
    {"int4-asym-g128", "ssmmmmmmgg", "ssmmmmgggg", "ssgggggggg"},
    {"int8-sym-row", "ssmmmmmmgg", "ssmmmmgggg", "ssgggggggg"},
    {"lut4-nf4-g128", "ssmmmmmmgg", "ssmmmmgggg", "ssgggggggg"},
    {"lut4-row-g128", "ssmmmmmmgg", "ssmmmmgggg", "ssgggggggg"},
    {"int8-asym-g128", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"int4-sym-g32", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"lut4-nf4-g64", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"int4-sym-g48", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"nvfp4", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"int4-min-g32", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"int8-min-g64", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"int4-min-g128", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"int2-min-g16", "ssgggggggg", "ssgggggggg", "ssgggggggg"},
    {"mxfp4", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int4-sym-g128-a8", "ssssmmgggg", "ssssmmgggg", "ssssgggggg"},
    {"int8-sym-row-a8", "ssssmmgggg", "ssssmmgggg", "ssssgggggg"},
    {"int8-sym-row-a8o", "ssssmmgggg", "ssssmmgggg", "ssssgggggg"},
    {"int4-sym-g128-a4g128", "ssssmmgggg", "ssssmmgggg", "ssssgggggg"},
    {"int4-sym-g128-a4g128-tail128", "ssssgggggg", "ssssgggggg", "ssssgggggg"},
    {"int4-sym-g128-a4g128-tail200", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int8-sym-row-a8g128", "ssssmmssss", "ssssmmssss", "ssssssssss"},
    {"lut4-nf4-g128-a8", "ssssmmssss", "ssssmmssss", "ssssssssss"},
    {"lut4-row-g128-a8g128", "ssssmmgggg", "ssssmmgggg", "ssssgggggg"},
    {"lut4-fp4-g128-afp4g128-tail128", "ssssgggggg", "ssssgggggg", "ssssgggggg"},
    {"int4-sym-g128-afp4g128", "ssssmmgggg", "ssssmmgggg", "ssssgggggg"},
    {"int8-sym-row-afp4", "ssssmmgggg", "ssssmmgggg", "ssssgggggg"},
    {"int8-asym-g128-a8", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int4-sym-g32-a8", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int4-sym-g128-a8g64", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int4-asym-g16-bsr", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int4-asym-g16-bsr-a8", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int4-asym-g16-bsr-t16", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int4-asym-g16-bsr-t16-a8", "ssssssssss", "ssssssssss", "ssssssssss"},
    {"int4-asym-g128-2of4", "tttttttttt", "tttttttttt", "tttttttttt"},
    {"int8-sym-row-2of4", "tttttttttt", "tttttttttt", "tttttttttt"},
    {"int8-sym-row-2of4-a8", "tttttttttt", "tttttttttt", "tttttttttt"},
    {"f16-2of4", "tttttttttt", "tttttttttt", "tttttttttt"},
    {"trellis4-row", "tttttttttt", "tttttttttt", "tttttttttt"},
    {"trellis2-row-hrow", "tttttttttt", "tttttttttt", "tttttttttt"},
};

TEST(LinearKernels, AreChosenByFormatAndTokens) {
  for (const Rule& rule : kRules) {
    EXPECT_EQ(Layer(rule.scheme, kFewRows, true).kernels(), rule.sm90a) << rule.scheme;
    EXPECT_EQ(Layer(rule.scheme, kManyRows, true).kernels(), rule.many_rows) << rule.scheme;
    EXPECT_EQ(Layer(rule.scheme, kFewRows, false).kernels(), rule.others) << rule.scheme;
  }
}

// The rules once more, in one place and for every number of tokens.
std::string_view plain_rule(const Layer& layer, std::int64_t m, bool medium) {
  if (formats::is_dense(layer.linear.scheme)) {
    return m <= 8 ? "dense-few" : "dense-many";
  }
  if (formats::is_block_sparse(layer.linear.scheme)) {
    const bool tiles =
        formats::has_tile_pattern(layer.linear.scheme) && layer.linear.scheme.activation.is_float();
    return m > (tiles ? 64 : 32) ? "sparse-many" : tiles ? "sparse-tiles" : "sparse-few";
  }
  if (formats::keeps_two_of_four(layer.linear.scheme)) {
    return medium && m > 8 ? "two-of-four-many" : "two-of-four-few";
  }
  if (formats::has_trellis(layer.linear.scheme)) {
    return m > 64 ? "trellis-many" : "trellis-few";
  }
  const LinearShape& shape = layer.plan.shape;
  const UnitFormat& format = shape.format;
  const bool rounded = shape.inputs != GemmInputs::kHalf;
  const std::int64_t columns = rounded ? m : 2 * m;
  const bool whole_units = format.groups == 1 && format.scales == ScaleKind::kF16;
  if (medium && whole_units && format.codes != CodeKind::kInt8WithZeros && !format.has_shifts() &&
      shape.tail == 0 && columns > 16 && columns <= (rounded ? 32 : 128) &&
      (columns <= 64 || shape.n <= 8192)) {
    return "medium-batch";
  }
  bool gemm = format.scales == ScaleKind::kF16 && shape.tail <= 128;
  if (rounded) {
    gemm = gemm && format.groups == 1 && format.codes != CodeKind::kInt8WithZeros &&
           (format.codes != CodeKind::kBook || shape.inputs == GemmInputs::kInt8ScaledByGroup) &&
           (shape.inputs == GemmInputs::kInt8 || format.bits() == 4);  // no planes here
  }
  const std::int64_t few = std::max<std::int64_t>(max_small_batch(format, rounded ? 1 : 2), 8);
  return m <= few || !gemm ? "small-batch" : "gemm";
}

TEST(LinearKernels, FollowThePlainRule) {
  for (const Rule& rule : kRules) {
    for (const std::int64_t rows : {kFewRows, kManyRows}) {
      for (const bool medium : {false, true}) {
        const Layer layer(rule.scheme, rows, medium);
        for (std::int64_t m = 0; m <= 300; ++m) {
          ASSERT_EQ(layer.kernel(m).name, plain_rule(layer, m, medium))
              << rule.scheme << ", " << rows << " rows, " << m << " tokens";
        }
      }
    }
  }
}

TEST(LinearKernels, SayWhyTheyRefuse) {
  for (const Rule& rule : kRules) {
    for (const std::int64_t rows : {kFewRows, kManyRows}) {
      for (const bool medium : {false, true}) {
        const Layer layer(rule.scheme, rows, medium);
        for (const std::int64_t m : kTokens) {
          for (const Epilogue& epilogue :
               {Epilogue(), Epilogue{true, {}}, Epilogue{false, MlpActivation::kSilu},
                Epilogue{.half = true}, Epilogue{.half = true, .activation = MlpActivation::kGelu},
                Epilogue{.adds = true, .half = true}, Epilogue{.activation = MlpActivation::kGelu},
                Epilogue{.blocks = true}}) {
            for (const KernelAnswer& answer : answers_of(linear_kernels(), layer.of(m, epilogue))) {
              EXPECT_TRUE(!answer.refusal || answer.refusal->text().size() > 10) << answer.kernel;
            }
          }
        }
      }
    }
  }
  const Layer layer("int4-sym-g128", kManyRows, true);
  const std::string answers = to_string(answers_of(linear_kernels(), layer.of(64)));
  EXPECT_TRUE(answers.starts_with(
      "dense-few: weights are compressed; dense-many: weights are compressed; dense: weights are "
      "compressed; medium-batch: 128 columns of tokens and 8193 rows; with "
      "more than 8192 gemm is faster; small-batch: 64 tokens; up to 16 come here, and gemm "
      "takes all; int4-gemm: activations have more than 4 bits; gemm: takes it; "))
      << answers;
}

TEST(LinearKernels, NoneLeftIsAnErrorThatNamesAllReasons) {
  EXPECT_THROW(choose_kernel(linear_kernels(), Layer("bf16-2of4", 64, true).of(1)), core::Error);
  EXPECT_THROW(choose_kernel(linear_kernels(), Layer("trellis4-row-a8", 64, true).of(1)),
               core::Error);
  for (const std::int64_t m : {1, 40}) {
    EXPECT_THROW(choose_kernel(linear_kernels(), Layer("f16-g16-bsr", 64, true).of(m)),
                 core::Error);
  }
  const Layer layer("int4-sym-g128", kFewRows, false);
  try {
    choose_kernel(linear_kernels().subspan(2, 2), layer.of(1));
    ADD_FAILURE() << "was taken";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "no kernel takes the layer (dense: weights are compressed; medium-batch: the "
                 "device lacks the warpgroup products of sm_90a)");
  }
}

// Launches of the kernel for few tokens, in the place of gemm, where as many of them were measured.
TEST(LinearKernels, MeasuredLaunchesOfFewTokensComeBeforeGemm) {
  Schedules schedules({"NVIDIA Test", 132, 13});
  LinearSchedules measured;
  measured.shape = linear_shape(formats::parse_scheme("int4-sym-g128"), kFewRows, kInputs);
  measured.many = {{64, std::nullopt, 1.0}, {512, GemmPlan{.token_tile = 64}, 1.0}};
  schedules.add(measured);
  const Layer layer("int4-sym-g128", kFewRows, false, schedules);
  EXPECT_EQ(layer.kernels(), "ssssgggsgg");  // 33 tokens are fewer launches than 64
  EXPECT_EQ(layer.kernel(49).name, "small-batch");
}

// On a device of compute capability 8, without warpgroup products.
Layer with_int4_products(const std::string& scheme) {
  Layer layer(scheme, kFewRows, false);
  layer.plan.device.int4_products = true;
  return layer;
}

TEST(LinearKernels, OfFourBitsOnBothSidesAreNativeWhereTheDeviceHasThem) {
  for (const char* scheme :
       {"int4-sym-row-a4", "int4-asym-row-a4", "int4-asym-row-a4-asym", "int4-sym-g128-a4c0.9",
        "int4-asym-g128-a4", "int4-asym-g128-a4g128", "int4-sym-g128-a4g128c0.9",
        "int4-asym-g128-a4g128-asym", "int4-sym-g256-a4g256", "int3-asym-g128-a3-asym",
        "int4-sym-row-a4o"}) {
    EXPECT_EQ(with_int4_products(scheme).kernels(), "ssssiiiiii") << scheme;
    EXPECT_EQ(Layer(scheme, kFewRows, false).kernels(), "ssssgggggg") << scheme;
    EXPECT_EQ(Layer(scheme, kFewRows, true).kernels(), "ssssmmgggg") << scheme;
  }
  for (const char* scheme :
       {"int4-sym-g128", "int4-sym-g128-a8", "int8-sym-row-a4", "int4-sym-g32-a4",
        "lut4-nf4-g128-a4", "int4-sym-g128-a4g128-tail128", "int4-sym-g128-a4g64",
        "int4-sym-g128-afp4g128", "int4-sym-row-afp4", "f16"}) {
    EXPECT_EQ(with_int4_products(scheme).kernels(), Layer(scheme, kFewRows, false).kernels())
        << scheme;
  }
}

TEST(LinearKernels, OfFourBitsSayWhatTheyNeed) {
  const auto answer = [](const Layer& layer, const Epilogue& epilogue = {}) {
    const Refusal refused = int4_gemm_kernel().refusal(layer.of(512, epilogue));
    return refused ? refused->text() : std::string("takes it");
  };
  EXPECT_EQ(answer(Layer("int4-sym-row-a4", kFewRows, true)),
            "only devices of compute capability 8.0 to 8.9 have products of 4-bit integers; others "
            "take them as INT8");
  EXPECT_EQ(answer(with_int4_products("int4-sym-row-a8")), "activations have more than 4 bits");
  EXPECT_EQ(answer(with_int4_products("int4-sym-row-afp4")), "activations have more than 4 bits");
  EXPECT_EQ(answer(with_int4_products("int8-sym-row-a4")), "it multiplies integers of 4 bits");
  EXPECT_EQ(answer(with_int4_products("int4-sym-g128-a4g128-tail128")),
            "a tail of 128 inputs has 8 bits");
  EXPECT_EQ(answer(with_int4_products("int4-sym-g32-a4")),
            "32 inputs share a scale; it takes multiples of 128");
  const Epilogue gate{false, MlpActivation::kSilu};
  EXPECT_EQ(answer(with_int4_products("int4-sym-row-a4"), gate),
            "rows of gate and up don't stand in pairs");
  Layer paired = with_int4_products("int4-asym-row-a4-asym");
  paired.linear.pairs = true;
  EXPECT_EQ(answer(paired, gate), "takes it");
}

std::optional<InputForm> form_of(const Layer& layer, std::int64_t m) {
  return layer.kernel(m).input_form(layer.of(m));
}

TEST(LinearKernels, ReadTheirInputsInTheirForms) {
  const Layer int4("int4-sym-g128", kFewRows, true);
  EXPECT_EQ(form_of(int4, 8), InputForm::kInt8Lanes);
  EXPECT_EQ(form_of(int4, 16), InputForm::kByteTiles);
  EXPECT_EQ(form_of(int4, 17), InputForm::kFloat16Summed);
  EXPECT_EQ(form_of(int4, 65), InputForm::kFloat16Tiles);
  EXPECT_EQ(form_of(Layer("int4-asym-g128", kFewRows, true), 17), InputForm::kFloat16Tiles);
  EXPECT_EQ(form_of(Layer("int2-sym-g128", kFewRows, true), 17), InputForm::kFloat16Summed);
  EXPECT_EQ(form_of(Layer("lut4-nf4-g128", kFewRows, true), 17), InputForm::kByteTiles);
  EXPECT_EQ(form_of(Layer("int8-sym-row-a8", kFewRows, true), 65), InputForm::kByteTiles);
  EXPECT_EQ(form_of(with_int4_products("int4-sym-row-a4"), 16), InputForm::kInt8Lanes);
  EXPECT_EQ(form_of(with_int4_products("int4-sym-row-a4"), 17), InputForm::kInt4Tiles);
  for (const std::int64_t m : kTokens) {
    EXPECT_EQ(form_of(Layer("bf16", kFewRows, true), m), InputForm::kBFloat16);
    EXPECT_EQ(form_of(Layer("f16", kFewRows, true), m), InputForm::kFloat16);
    EXPECT_EQ(form_of(Layer("f32", kFewRows, true), m), std::nullopt);
  }
}

TEST(LinearKernels, OfDenseWeightsDependOnTheirTypeAndRows) {
  const auto kernel = [](const Layer& layer, std::int64_t m) { return layer.kernel(m).name; };
  const Layer floats("f32", kFewRows, true);
  EXPECT_EQ(kernel(floats, 8), "dense");
  EXPECT_EQ(kernel(floats, 9), "dense-many");
  Layer exact("bf16", kFewRows, true);
  exact.linear.exact = true;
  EXPECT_EQ(kernel(exact, 1), "dense");
  EXPECT_EQ(kernel(exact, 512), "dense");
  Layer odd("f16", kFewRows, true);
  odd.linear.k = 4100;
  EXPECT_EQ(kernel(odd, 1), "dense");
  EXPECT_EQ(kernel(odd, 512), "dense");
  odd.linear.k = 4104;
  EXPECT_EQ(kernel(odd, 1), "dense-few");
}

// Then the kernel of few tokens takes them in several launches, and float32 ones take turns.
TEST(LinearKernels, WithoutCublasLtOursTakeAllTokens) {
  Layer halves("bf16", kFewRows, true);
  Layer floats("f32", kFewRows, true);
  for (Layer* layer : {&halves, &floats}) {
    layer->plan.device.blas_lt_absence = [] { return std::string_view("no such file"); };
  }
  EXPECT_EQ(halves.kernel(512).name, "dense-few");
  Layer trellis("trellis3-row", kFewRows, true);
  trellis.plan.device.blas_lt_absence = halves.plan.device.blas_lt_absence;
  EXPECT_EQ(trellis.kernel(512).name, "trellis-few");
  EXPECT_EQ(halves.kernel(512).schedule(halves.of(512)), "16 launches, rows in tiles of 16");
  EXPECT_EQ(floats.kernel(512).name, "dense");
  const auto answers = answers_of(linear_kernels(), floats.of(512));
  EXPECT_EQ(to_string(std::span(answers).first(2)),
            "dense-few: weights have 32 bits; dense-many: cublaslt not found: no such file");
}

TEST(LinearKernels, JoinGatesOfPairsToWhichNothingIsAdded) {
  const Epilogue gate{false, MlpActivation::kSilu};
  const auto joins = [&](const char* scheme, std::int64_t m, bool pairs = true) {
    Layer layer(scheme, kFewRows, true);
    layer.linear.pairs = pairs;
    return !layer.kernel(m).refusal(layer.of(m, gate));
  };
  EXPECT_FALSE(joins("int4-sym-g128", 1)) << "small-batch";
  EXPECT_FALSE(joins("int4-sym-g128", 16)) << "digits";
  EXPECT_TRUE(joins("int4-sym-g128", 17));
  EXPECT_TRUE(joins("int4-sym-g128", 65));
  EXPECT_FALSE(joins("int4-sym-g128", 65, false));
  EXPECT_FALSE(joins("lut4-nf4-g128", 17)) << "digits";
  EXPECT_TRUE(joins("lut4-nf4-g128", 65));
  EXPECT_TRUE(joins("int8-sym-row-a8", 65));
  EXPECT_FALSE(joins("int8-sym-row-a8-asym", 65)) << "zeros";
  EXPECT_FALSE(joins("int8-sym-row-a8o", 65)) << "outliers";
  EXPECT_FALSE(joins("f16", 65));
}

TEST(LinearKernels, RoundResultsToFloat16WhereNothingIsAddedToThem) {
  const auto rounds = [](const char* scheme, std::int64_t m, Epilogue epilogue = {.half = true}) {
    const Layer layer(scheme, kFewRows, true);
    return !layer.kernel(m).refusal(layer.of(m, epilogue));
  };
  const Epilogue gelu{.half = true, .activation = MlpActivation::kGelu};
  for (const char* scheme :
       {"int4-sym-g128", "int3-asym-g128", "lut2-row-g128", "int8-sym-row", "lut4-nf4-g128",
        "int8-sym-row-a8", "int4-sym-g128-a4g128", "fp8-row", "fp8-row-afp8"}) {
    for (const std::int64_t m : kTokens) {
      EXPECT_TRUE(rounds(scheme, m) && rounds(scheme, m, gelu)) << scheme << ", " << m;
      EXPECT_FALSE(rounds(scheme, m, {.adds = true, .half = true})) << scheme << ", " << m;
      EXPECT_FALSE(rounds(scheme, m, {.activation = MlpActivation::kGelu})) << scheme;
    }
  }
  for (const std::int64_t m : kTokens) {
    EXPECT_FALSE(rounds("int8-sym-row-a8-asym", m)) << "zeros";
    EXPECT_FALSE(rounds("int8-sym-row-a8o", m)) << "outliers";
    EXPECT_TRUE(rounds("f16", m));
    EXPECT_EQ(rounds("f16", m, gelu), m <= 8) << "dense-few";
    EXPECT_EQ(rounds("bf16", m), m <= 8) << "dense-few";
    EXPECT_FALSE(rounds("f32", m));
  }
  EXPECT_FALSE(rounds("int4-sym-g128-a4g128-tail128", 1)) << "the tail is a second launch";
  EXPECT_TRUE(rounds("int4-sym-g128-a4g128-tail128", 65));
}

// To another GPU, by the kernel for many tokens alone.
TEST(LinearKernels, SendResultsThatNothingIsAddedTo) {
  const auto sends = [](const char* scheme, std::int64_t m, std::int64_t rows = kFewRows,
                        Epilogue epilogue = {.blocks = true}) {
    const Layer layer(scheme, rows, true);
    return !layer.kernel(m).refusal(layer.of(m, epilogue));
  };
  for (const Rule& rule : kRules) {
    const Layer layer(rule.scheme, kFewRows, true);
    for (const std::int64_t m : kTokens) {
      const bool takes = layer.kernel(m).name == "gemm" &&
                         !layer.linear.scheme.activation.carries_zeros() &&
                         !layer.linear.scheme.activation.keeps_outliers;
      EXPECT_EQ(sends(rule.scheme, m), takes) << rule.scheme << ", " << m;
    }
  }
  EXPECT_TRUE(sends("int8-sym-row-a8", 512));
  EXPECT_FALSE(sends("int8-sym-row-a8", 512, kManyRows)) << "rows that are no multiple of 8";
  EXPECT_FALSE(sends("int8-sym-row-a8", 512, kFewRows, {.adds = true, .blocks = true}));
  EXPECT_FALSE(sends("int8-sym-row-a8-asym", 512)) << "zeros";
  EXPECT_FALSE(sends("int8-sym-row-a8o", 512)) << "outliers";
}

TEST(LinearKernels, AddToTheResidualStream) {
  for (const Rule& rule : kRules) {
    const Layer layer(rule.scheme, kFewRows, true);
    for (const std::int64_t m : kTokens) {
      EXPECT_FALSE(layer.kernel(m).refusal(layer.of(m, {true, std::nullopt}))) << rule.scheme;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
