#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "formats/block_sparse.h"
#include "ops/cpu/sparse/sparse_linear.h"
#include "ops/cpu/sparse/sparse_weights_for_tests.h"
#include "ops/cuda/cuda_layers_for_tests.h"

// Layers of block-sparse rows from float input to result, beside the CPU's kernel.
namespace nibble::ops::cuda {
namespace {

using cpu::testing::sparse_weight;
using formats::PackedWeight;

class SparseCudaLayers : public CudaLayers {
 protected:
  std::vector<float> run(const PackedWeight& weight, const std::vector<float>& x, std::int64_t m) {
    return CudaLayers::run(single(weight), x, m);
  }
  using CudaLayers::run;

  /// The CPU's result from the codes that its layers take, of 16 bits where activations are floats.
  std::vector<float> on_cpu(const PackedWeight& weight, const std::vector<float>& x,
                            std::int64_t m) {
    cpu::InputNeeds needs = cpu::sparse_needs(weight);
    needs.wide = weight.scheme.activation.is_float();
    cpu::QuantizedInput input;
    cpu::quantize_input(x.data(), m, weight.k, weight.k, needs, input, pool_);
    std::vector<float> y(static_cast<std::size_t>(m * weight.n));
    const cpu::SparseStreams streams =
        cpu::SparseStreams::pack(formats::with_row_pattern(weight), pool_);
    const cpu::SparseStreams* const alone = &streams;
    cpu::sparse_linear(cpu::scalar_sparse_kernel(), {&alone, 1}, input, y.data(), weight.n, pool_);
    return y;
  }

  static double root_mean_square(const std::vector<float>& values) {
    double sum = 0.0;
    for (const float value : values) {
      sum += static_cast<double>(value) * value;
    }
    return std::sqrt(sum / static_cast<double>(values.size()));
  }

  void expect_near(const std::string& scheme, std::int64_t m, double tolerance) {
    const bool tiles = formats::has_tile_pattern(formats::parse_scheme(scheme));
    const PackedWeight weight = sparse_weight(scheme, tiles ? 208 : 210, 1152, 3);
    const std::vector<float> x = cpu::testing::random_input(m, weight.k, 4);
    const std::vector<float> expected = on_cpu(weight, x, m);
    const std::vector<float> y = run(weight, x, m);
    const double level = root_mean_square(expected);
    ASSERT_GT(level, 0.0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i], tolerance * level) << scheme << ", " << m << " tokens, " << i;
    }
  }
};

// A code that differs moves a result by more than 1e-3 of its size.
TEST_F(SparseCudaLayers, HaveTheCodesOfTheCpu) {
  for (const std::string scheme :
       {"int4-asym-g16-bsr-a8", "int4-sym-g32-bsr-a8g64", "int4-asym-g16-bsr-a8g128",
        "int4-asym-g16-bsr-a8g16", "int4-asym-g16-s7-bsr-a8", "int4-asym-g16-bsr-a8s",
        "int4-asym-g64-bsr-a4", "int4-asym-g16-bsr-afp4", "int4-sym-g32-bsr-afp4g64",
        "int8-asym-g16-bsr-a8", "int8-sym-g32-bsr-t16-a8g128"}) {
    for (const std::int64_t m : {1, 3, 6, 32}) {
      expect_near(scheme, m, 2e-5);
    }
    for (const std::int64_t m : {33, 70}) {  // codes times their scales, and weights, in float16
      expect_near(scheme, m, 2e-3);
    }
  }
}

// Scales of 1 throughout: results are integers, and those of the CPU.
TEST_F(SparseCudaLayers, HaveTheIntegersOfTheCpu) {
  PackedWeight weight = sparse_weight("int4-asym-g16-bsr-a8s", 100, 1152, 5);
  for (core::Fp16& scale : weight.scales.mutable_data<core::Fp16>()) {
    scale = core::to_fp16(1.0f);
  }
  weight = formats::with_input_scale(std::move(weight), 1.0f);
  std::vector<float> x = cpu::testing::random_input(5, weight.k, 6);
  for (float& value : x) {
    value *= 40.0f;
  }
  EXPECT_EQ(run(weight, x, 5), on_cpu(weight, x, 5));
}

// 33 tokens and more meet weights in float16.
TEST_F(SparseCudaLayers, OfFloatActivationsComeNear) {
  for (const std::string scheme :
       {"int4-asym-g16-bsr", "int8-asym-g16-bsr", "int8-asym-g16-bsr-t16"}) {
    for (const std::int64_t m : {1, 4, 7, 16, 32}) {
      expect_near(scheme, m, 1e-3);
    }
    for (const std::int64_t m : {33, 70}) {
      expect_near(scheme, m, 8e-3);
    }
  }
}

// Weights and activations in float16, for few tokens and for many; rounded activations keep the
// kernels of rows.
TEST_F(SparseCudaLayers, OfTilesComeNear) {
  for (const std::string scheme : {"int4-asym-g16-bsr-t16", "int3-sym-g32-bsr-t16"}) {
    for (const std::int64_t m : {1, 4, 9, 16, 33, 64, 65, 130}) {
      expect_near(scheme, m, 8e-3);
    }
  }
  for (const std::int64_t m : {1, 6, 32}) {
    expect_near("int4-asym-g16-bsr-t16-a8", m, 2e-5);
  }
}

// Gate and up, of whose rows eight and eight take turns in the result.
TEST_F(SparseCudaLayers, OfTilesStandInPairs) {
  LinearSet set;
  set.id = 0;
  set.pairs = true;
  set.parts.push_back({"gate", sparse_weight("int4-asym-g16-bsr-t16", 160, 256, 1), {}});
  set.parts.push_back({"up", sparse_weight("int4-asym-g16-bsr-t16", 160, 256, 2), {}});
  for (const std::int64_t m : {3, 70}) {
    const std::vector<float> x = cpu::testing::random_input(m, 256, 4);
    const std::vector<float> y = run(set, x, m);
    for (std::size_t part = 0; part < 2; ++part) {
      const std::vector<float> expected = on_cpu(set.parts[part].weight, x, m);
      const double level = root_mean_square(expected);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::size_t row = i % 160;
        const std::size_t column = row / 8 * 16 + row % 8 + 8 * part;
        ASSERT_NEAR(y[i / 160 * 320 + column], expected[i], 8e-3 * level)
            << m << " tokens, part " << part << ", " << i;
      }
    }
  }
}

TEST_F(SparseCudaLayers, GiveATokenTheSameBitsInEveryBatch) {
  for (const std::string scheme :
       {"int4-asym-g16-bsr", "int4-asym-g16-bsr-a8", "int4-asym-g16-bsr-t16"}) {
    const PackedWeight weight = sparse_weight(scheme, 144, 1024, 7);
    const std::vector<float> x = cpu::testing::random_input(16, weight.k, 8);
    const std::vector<float> together = run(weight, x, 16);
    for (const std::int64_t token : {0, 5, 15}) {
      const std::vector<float> one(x.begin() + token * weight.k,
                                   x.begin() + (token + 1) * weight.k);
      const std::vector<float> alone = run(weight, one, 1);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + token * weight.n))
          << scheme << ", token " << token;
    }
  }
}

// More tokens than the codes of one product.
TEST_F(SparseCudaLayers, OfManyTokensComeNearInEveryPart) {
  const PackedWeight weight = sparse_weight("int4-asym-g16-bsr-a8", 24, 144, 9);
  const std::int64_t m = kWideTokens + 70;
  const std::vector<float> x = cpu::testing::random_input(m, weight.k, 10);
  const std::vector<float> expected = on_cpu(weight, x, m);
  const std::vector<float> y = run(weight, x, m);
  const double level = root_mean_square(expected);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], expected[i], 4e-3 * level) << "token " << i / 24 << ", row " << i % 24;
  }
}

TEST_F(SparseCudaLayers, WithoutAKernelAreRefused) {
  const std::pair<const char*, const char*> refused[] = {
      {"int4-asym-g8-bsr", "groups of 8 inputs; it takes 16, 32 and 64"},
      {"lut4-row-g16-bsr", "codes are entries of a book; it takes integers of up to 8 bits"}};
  for (const auto& [scheme, reason] : refused) {
    CudaOps ops({});
    UnitPacker packer(pool_);
    LinearSet set;
    set.id = 0;
    set.parts.push_back({"layer", sparse_weight(scheme, 4, 64, 1), {}});
    try {
      ops.prepare(set, packer);
      ADD_FAILURE() << scheme << " was taken";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
      EXPECT_EQ(error.what(),
                fmt::format("layer layer: {} on a GPU: {}; use --device cpu", scheme, reason));
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
