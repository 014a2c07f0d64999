#include <cmath>

#include "compress/awq/clip_search.h"
#include "compress/awq/scale_search.h"
#include "compress/backend/cuda/backend_for_tests.h"
#include "compress/block/layer_for_tests.h"
#include "ops/cpu/cpu_ops.h"

// AWQ's searches on the GPU beside those of the CPU.
namespace nibble::compress {
namespace {

using formats::parse_scheme;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

using CudaAwq = GpuBackendTest;

// Two layers that share an input, behind a norm.
struct AwqCase {
  AwqCase(const std::string& text, std::int64_t n, std::int64_t k)
      : statistics(StatisticsKind::kHessian, k) {
    std::uint64_t seed = 3;
    for (ops::Linear* linear : {&first, &second}) {
      linear->weight.n = linear == &first ? n : n + 5;
      linear->weight.k = k;
      LayerWork layer;
      layer.layer = linear;
      layer.scheme = parse_scheme(text);
      layer.target = core::normal_values(linear->weight.n * k, ++seed);
      layer.weights = layer.target;
      set.layers.push_back(std::move(layer));
    }
    ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
    auto x = ops.matrix(2 * k, k);
    const auto noise = core::normal_values(2 * k * k, 5);
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        x.row(i)[j] =
            (noise[index(i * k + j)] + noise[index(i * k)]) * (j % 40 == 3 ? 12.0f : 1.0f);
      }
    }
    statistics.add(x, ops.pool());
    set.statistics = &statistics;
  }
  AwqCase(const AwqCase&) = delete;

  ops::Linear first;
  ops::Linear second;
  InputStatistics statistics;
  SetWork set;
};

constexpr const char* kAwqSchemes[] = {"int4-asym-g32", "int3-sym-g64", "int4-asym-row",
                                       "int8-sym-g32",  "lut4-nf4-g64", "lut4-fp4-g32",
                                       "lut4-iq4-g32"};

TEST_F(CudaAwq, JudgesScalesForAwq) {
  for (const char* text : kAwqSchemes) {
    for (const std::int64_t k : {64, 200, 330}) {
      for (const std::int64_t n : {3, 600}) {
        const AwqCase example(text, n, k);
        ASSERT_TRUE(awq_runs_on_gpu(example.set, *gpu_));
        std::vector<std::vector<float>> scales;
        for (int i = 0; i < 3; ++i) {
          scales.push_back(core::normal_values(k, 20 + static_cast<std::uint64_t>(i)));
          for (float& s : scales.back()) {
            s = std::exp(0.3f * s);
          }
        }
        const auto expected = scale_errors(example.set, scales, cpu_);
        const auto got = scale_errors(example.set, scales, *gpu_);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(got[i], expected[i], 1e-4 * expected[i]) << text << " " << n << " " << k;
        }
      }
    }
  }
}

TEST_F(CudaAwq, ClipsForAwq) {
  for (const char* text : kAwqSchemes) {
    for (const std::int64_t k : {64, 200, 330}) {
      AwqCase expected(text, 70, k);
      AwqCase got(text, 70, k);
      clip_set(expected.set, cpu_);
      clip_set(got.set, *gpu_);
      std::size_t equal = 0;
      std::size_t clipped = 0;
      std::size_t all = 0;
      for (std::size_t layer = 0; layer < 2; ++layer) {
        const auto& a = got.set.layers[layer].weights;
        const auto& b = expected.set.layers[layer].weights;
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
          equal += a[i] == b[i] ? 1 : 0;
          clipped += b[i] != expected.set.layers[layer].target[i] ? 1 : 0;
        }
        all += a.size();
      }
      EXPECT_GT(clipped, 0u) << text;
      EXPECT_GE(static_cast<double>(equal), 0.998 * static_cast<double>(all)) << text << " " << k;
    }
  }
}

}  // namespace
}  // namespace nibble::compress
