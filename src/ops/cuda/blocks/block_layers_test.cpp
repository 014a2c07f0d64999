#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/threads.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/cuda_ops.h"

// Layers in the blocks of GGUF files on a GPU, beside sums of their decoded weights in double
// precision.
namespace nibble::ops::cuda {
namespace {

constexpr double kFew = 8e-4;   // two INT8 digits; scales and shifts rounded to float16
constexpr double kBook = 5e-3;  // entries rounded to a table of INT8
constexpr double kMany = 4e-3;  // inputs in float16

class BlockLayers : public device::GpuTest {
 protected:
  static void copy(void* to, const void* from, std::size_t bytes) {
    device::cuda::check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
    device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void expect_products(const LinearSet& set, std::int64_t m, const std::string& what) {
    CudaOps ops({});
    UnitPacker packer(pool_, 1 << 16);
    ops.prepare(set, packer);
    const std::vector<float> x = cpu::testing::random_input(m, set.k(), 9);
    DeviceMatrix matrix = ops.matrix(m, set.k());
    copy(matrix.data(), x.data(), x.size() * sizeof(float));
    CudaOps::Input input = ops.input(std::move(matrix), set);
    const DeviceMatrix result = ops.linear(input, set);
    ops.synchronize();
    std::vector<float> y(static_cast<std::size_t>(m * set.n()));
    copy(y.data(), result.data(), y.size() * sizeof(float));
    if (result.paired()) {
      y = parted(y, m, set.parts[0].weight.n);
    }
    std::int64_t column = 0;
    for (const Linear& part : set.parts) {
      expect_part(part, x, m, y, set.n(), column,
                  formats::has_book(part.weight.scheme) ? kBook
                  : m > 8                               ? kMany
                                                        : kFew,
                  what);
      column += part.weight.n;
    }
  }

  // Rows of two parts, eight of each in turn, as one part behind the other.
  static std::vector<float> parted(const std::vector<float>& y, std::int64_t m, std::int64_t n) {
    std::vector<float> result(y.size());
    for (std::int64_t token = 0; token < m; ++token) {
      for (std::int64_t row = 0; row < 2 * n; ++row) {
        const std::int64_t of_part = row / 16 * 8 + row % 8;
        result[static_cast<std::size_t>(token * 2 * n + row / 8 % 2 * n + of_part)] =
            y[static_cast<std::size_t>(token * 2 * n + row)];
      }
    }
    return result;
  }

  // The largest weight of the group that i lies in. A weight with a minimum is a product and a
  // shift of up to that size, each rounded, of which it may be the small difference.
  static double reach_of_group(const std::vector<float>& row, std::int64_t i) {
    constexpr std::int64_t kGroup = 16;
    double reach = 0;
    for (std::int64_t j = i / kGroup * kGroup; j < (i / kGroup + 1) * kGroup; ++j) {
      reach = std::max(reach, static_cast<double>(std::fabs(row[static_cast<std::size_t>(j)])));
    }
    return reach;
  }

  static void expect_part(const Linear& part, const std::vector<float>& x, std::int64_t m,
                          const std::vector<float>& y, std::int64_t ldy, std::int64_t column,
                          double error, const std::string& what) {
    const std::int64_t k = part.weight.k;
    std::vector<float> row(static_cast<std::size_t>(k));
    for (std::int64_t n = 0; n < part.weight.n; ++n) {
      formats::decode_row(part.weight, n, row);
      for (std::int64_t token = 0; token < m; ++token) {
        double sum = part.bias.empty() ? 0.0 : part.bias[static_cast<std::size_t>(n)];
        double magnitude = 0.0;
        for (std::int64_t i = 0; i < k; ++i) {
          const double product = static_cast<double>(row[static_cast<std::size_t>(i)]) *
                                 x[static_cast<std::size_t>(token * k + i)];
          sum += product;
          magnitude +=
              reach_of_group(row, i) * std::fabs(x[static_cast<std::size_t>(token * k + i)]);
        }
        ASSERT_NEAR(y[static_cast<std::size_t>(token * ldy + column + n)], sum, error * magnitude)
            << what << ": token " << token << " of " << m << ", row " << n;
      }
    }
  }

  core::ThreadPool pool_{1};
};

TEST_F(BlockLayers, EverySchemeOfGgufMultiplies) {
  for (const std::string scheme :
       {"int4-min-g32", "int8-min-g32", "int4-min-g32-s8", "int8-min-g32-s8", "int2-min-g16-s8",
        "int3-sym-g16-s8", "int8-sym-g16-s8", "lut4-matrix-g32-s8", "int8-min-g16", "int3-min-g64",
        "int4-min-g128", "int5-sym-g32", "int5-min-g32", "int5-min-g32-s8", "int6-sym-g16-s8",
        "lut4-iq4-g32", "lut4-iq4-g32-s8"}) {
    for (const auto& [n, k] :
         {std::pair<std::int64_t, std::int64_t>{37, 256}, {64, 512}, {203, 1280}}) {
      LinearSet set;
      set.id = 0;
      set.parts.push_back({"layer", cpu::testing::random_weight(scheme, n, k, 3), {}});
      for (const std::int64_t m : {1, 3, 4, 5, 8, 21, 70, 130, 300}) {
        expect_products(set, m, scheme + ", " + std::to_string(n) + " x " + std::to_string(k));
      }
    }
  }
}

// Rows of no multiple of a unit of 128 inputs: blocks of 32.
TEST_F(BlockLayers, RowsMayEndWithinAUnit) {
  for (const std::string scheme : {"int4-min-g32", "int8-min-g32"}) {
    LinearSet set;
    set.id = 0;
    set.parts.push_back({"layer", cpu::testing::random_weight(scheme, 70, 416, 3), {}});
    for (const std::int64_t m : {1, 20}) {
      expect_products(set, m, scheme);
    }
  }
}

// As q|k|v of Q4_K_M: minima in two parts, a bias, Q6_K in the third; and gates, in pairs.
TEST_F(BlockLayers, PartsStandSideBySide) {
  LinearSet set;
  set.id = 0;
  set.parts.push_back({"q", cpu::testing::random_weight("int4-min-g32-s8", 64, 512, 1),
                       cpu::testing::random_input(1, 64, 5)});
  set.parts.push_back({"k", cpu::testing::random_weight("int4-min-g32-s8", 24, 512, 2), {}});
  set.parts.push_back({"v", cpu::testing::random_weight("int8-sym-g16-s8", 24, 512, 3), {}});
  LinearSet gated;
  gated.id = 0;
  gated.pairs = true;
  for (const std::uint64_t seed : {1u, 2u}) {
    gated.parts.push_back(
        {"gate", cpu::testing::random_weight("int4-min-g32-s8", 64, 512, seed), {}});
  }
  for (const std::int64_t m : {1, 8, 40}) {
    expect_products(set, m, "q|k|v");
    expect_products(gated, m, "gate|up");
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
