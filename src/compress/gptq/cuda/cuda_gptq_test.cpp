#include <algorithm>
#include <numeric>

#include "compress/any4/learned_books.h"
#include "compress/backend/cuda/backend_for_tests.h"
#include "compress/block/layer_for_tests.h"
#include "compress/coding/gpu_coder.h"
#include "compress/gptq/gptq.h"

// GPTQ on the GPU beside that of the CPU.
namespace nibble::compress {
namespace {

using formats::parse_scheme;
using formats::Scheme;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

using CudaGptq = GpuBackendTest;

// tr(E H E^T) of codes, E = w - decoded.
double loss_of(const std::vector<float>& w, std::int64_t n, std::int64_t k, const Scheme& scheme,
               const CodedWeight& coded, const std::vector<float>& hessian) {
  return loss(w, pack(coded, n, k, scheme), hessian);
}

double share_of_equal(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    equal += a[i] == b[i] ? 1 : 0;
  }
  return static_cast<double>(equal) / static_cast<double>(a.size());
}

TEST_F(CudaGptq, FactorsTheInverse) {
  for (const std::int64_t k : {1, 5, 40, 129, 300}) {
    const auto hessian = correlated_hessian(k, 2 * k + 3, 1);
    for (const bool descending : {false, true}) {
      const auto on = [&](const Backend& backend) {
        return inverse_factor(hessian, k, 0.01, descending, factor_on(backend));
      };
      const InverseFactor expected = on(cpu_);
      const InverseFactor got = on(*gpu_);
      EXPECT_EQ(got.damp, expected.damp);
      EXPECT_EQ(got.order, expected.order);
      const float largest = *std::max_element(expected.upper.begin(), expected.upper.end());
      ASSERT_EQ(got.upper.size(), expected.upper.size());
      for (std::size_t i = 0; i < got.upper.size(); ++i) {
        ASSERT_NEAR(got.upper[i], expected.upper[i], 1e-6f * largest) << k << ": " << i;
      }
    }
  }
}

TEST_F(CudaGptq, SaysWhichHessianHasNoFactor) {
  constexpr std::int64_t kSize = 40;
  const auto hessian = correlated_hessian(kSize, 11, 1);  // of rank 11
  std::vector<std::int64_t> order(kSize);
  std::iota(order.begin(), order.end(), 0);
  const std::vector<bool> dead(kSize);
  const FactorFunction factor = factor_on(*gpu_);
  EXPECT_EQ(factor({hessian, order, dead, -1.0}), std::nullopt);
  EXPECT_NE(factor({hessian, order, dead, 100.0}), std::nullopt);
}

// A book for each row, or integers: whatever the scheme stores.
Parameters parameters_for(const std::vector<float>& w, std::int64_t n, std::int64_t k,
                          const Scheme& scheme, const Backend& cpu) {
  if (scheme.code.book != formats::Book::kPerRow && scheme.code.book != formats::Book::kPerMatrix) {
    return fit_parameters(w, n, k, scheme, cpu.pool());
  }
  const std::vector<float> ones(index(k), 1.0f);
  return learn_books(w, n, k, scheme, ones, {}, cpu);
}

TEST_F(CudaGptq, RoundsByGptq) {
  struct Shape {
    std::int64_t n, k;
  };
  for (const char* text :
       {"int4-asym-g32", "int3-asym-g64", "int4-sym-g128", "int8-sym-row", "lut4-nf4-g32",
        "lut4-iq4-g32", "lut4-row-g64", "lut4-matrix-g64", "lut3-row-g64"}) {
    const Scheme scheme = parse_scheme(text);
    ASSERT_TRUE(has_gpu_coder_of_head(scheme));
    for (const Shape& shape : {Shape{1, 40}, {7, 128}, {70, 200}, {33, 331}, {130, 512}}) {
      const auto [n, k] = shape;
      const auto w = core::normal_values(n * k, 7);
      auto hessian = correlated_hessian(k, 3 * k, 8);
      for (std::int64_t j = 0; k > 100 && j < k; ++j) {  // an input that never was active
        hessian[index(17 * k + j)] = hessian[index(j * k + 17)] = 0;
      }
      const InverseFactor factor = inverse_factor(hessian, k, 0.01, true);
      std::vector<std::uint8_t> kept(w.size(), 1);
      for (std::size_t i = 0; i < kept.size(); i += 3) {
        kept[i] = 0;
      }
      for (const bool prunes : {false, true}) {
        const auto on = [&](const Backend& backend) {
          return gptq(
              w, n, k, scheme, parameters_for(w, n, k, scheme, cpu_), factor, backend,
              prunes ? std::span<const std::uint8_t>(kept) : std::span<const std::uint8_t>());
        };
        const CodedWeight expected = on(cpu_);
        const CodedWeight got = on(*gpu_);
        const std::string what = fmt::format("{} [{}, {}] {}", text, n, k, prunes);
        ASSERT_EQ(got.codes.size(), expected.codes.size());
        EXPECT_GE(share_of_equal(got.codes, expected.codes), 0.99) << what;
        const double wanted = loss_of(w, n, k, scheme, expected, hessian);
        EXPECT_NEAR(loss_of(w, n, k, scheme, got, hessian), wanted, 0.01 * wanted) << what;
      }
    }
  }
}

// The last inputs in INT8, a scale for each row, wherever the order puts them.
TEST_F(CudaGptq, RoundsTailsInInt8) {
  struct Case {
    const char* scheme;
    std::int64_t n, k;
  };
  for (const Case& each : {Case{"int4-sym-g16-a4-tail32", 33, 336},
                           {"int4-sym-g128-a4g128c0.9-tail128", 130, 512},
                           {"int3-sym-row-a3-tail16", 7, 160},
                           {"lut4-fp4-g128-afp4g128-tail128", 130, 512},
                           {"int4-sym-g128-a4-tail16", 70, 208}}) {
    const Scheme scheme = parse_scheme(each.scheme);
    const auto [text, n, k] = each;
    ASSERT_TRUE(has_gpu_coder_of_head(scheme));
    ASSERT_FALSE(has_gpu_coder(scheme));
    const auto w = core::normal_values(n * k, 7);
    const auto hessian = correlated_hessian(k, 3 * k, 8);
    std::vector<std::int32_t> in_order(index(k));
    std::iota(in_order.begin(), in_order.end(), 0);
    for (const bool descending : {false, true}) {
      const InverseFactor factor = inverse_factor(hessian, k, 0.01, descending);
      const auto on = [&](const Backend& backend) {
        return gptq(w, n, k, scheme, fit_parameters(w, n, k, scheme, pool_), factor, backend, {});
      };
      const CodedWeight expected = on(cpu_);
      const CodedWeight got = on(*gpu_);
      ASSERT_EQ(got.codes.size(), expected.codes.size());
      EXPECT_GE(share_of_equal(got.codes, expected.codes), 0.99) << text;
      const auto loss_with = [&](const CodedWeight& coded) {
        return loss(w, pack(coded, n, k, scheme, pool_, in_order), hessian);
      };
      const double wanted = loss_with(expected);
      EXPECT_NEAR(loss_with(got), wanted, 0.01 * wanted) << text;
    }
  }
}

TEST_F(CudaGptq, LeavesToTheCpuWhatItHasNoKernelsFor) {
  const Scheme scheme = parse_scheme("mxfp4");
  EXPECT_FALSE(has_gpu_coder(scheme));
  constexpr std::int64_t kOutputs = 4;
  constexpr std::int64_t kInputs = 64;
  const auto w = core::normal_values(kOutputs * kInputs, 7);
  const InverseFactor factor =
      inverse_factor(correlated_hessian(kInputs, 100, 8), kInputs, 0.01, true);
  const auto on = [&](const Backend& backend) {
    return gptq(w, kOutputs, kInputs, scheme, fit_parameters(w, kOutputs, kInputs, scheme, pool_),
                factor, backend, {})
        .codes;
  };
  EXPECT_EQ(on(*gpu_), on(cpu_));
}

}  // namespace
}  // namespace nibble::compress
