#include "ops/cpu/vector/vector_kernels.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"

namespace nibble::ops::cpu {
namespace {

std::vector<float> normal(std::int64_t count, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = random.normal();
  }
  return values;
}

constexpr std::int64_t kLengths[] = {1, 3, 7, 8, 15, 16, 17, 31, 64, 100, 513};

template <typename T>
std::vector<T> narrowed(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) {
    if constexpr (std::is_same_v<T, core::Fp16>) {
      result.push_back(core::to_fp16(value));
    } else {
      result.push_back(core::to_bf16(value));
    }
  }
  return result;
}

template <typename T, typename Dot>
void check_dot(Dot dot, const std::vector<T>& w, std::int64_t k) {
  const std::vector<float> x = normal(kDotRows * (k + 5), 7);
  for (std::int64_t rows = 1; rows <= kDotRows; ++rows) {
    float out[kDotRows] = {NAN, NAN, NAN, NAN};
    dot(x.data(), k + 5, rows, w.data(), k, out);
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      double absolute = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const double product = static_cast<double>(x[static_cast<std::size_t>(i * (k + 5) + j)]) *
                               static_cast<double>(core::to_float(w[static_cast<std::size_t>(j)]));
        sum += product;
        absolute += std::fabs(product);
      }
      EXPECT_NEAR(out[i], sum, 4 * std::sqrt(static_cast<double>(k)) * 0x1p-24 * absolute + 1e-30);
      float alone = NAN;
      dot(x.data() + i * (k + 5), k + 5, 1, w.data(), k, &alone);
      EXPECT_EQ(alone, out[i]) << "a row must not depend on the rows beside it";
    }
  }
}

TEST(VectorKernels, DotProducts) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t k : kLengths) {
      const std::vector<float> w = normal(k, 3);
      check_dot(kernels->dot_f32, w, k);
      check_dot(kernels->dot_f16, narrowed<core::Fp16>(w), k);
      check_dot(kernels->dot_bf16, narrowed<core::Bf16>(w), k);
    }
  }
}

// Codes as floats, and as the kernels read them.
struct Codes {
  std::vector<float> values;
  std::vector<std::uint8_t> bytes;
};

Codes random_codes(std::int64_t count, int bits) {
  core::Random random(9);
  Codes codes;
  codes.bytes.resize(static_cast<std::size_t>(bits == 8 ? count : count / 2));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<int>(random.below(std::int64_t{1} << bits));
    codes.values.push_back(static_cast<float>(code));
    const auto at = static_cast<std::size_t>(bits == 8 ? i : i / 2);
    const int shift = bits == 8 ? 0 : static_cast<int>(4 * (i % 2));
    codes.bytes[at] = static_cast<std::uint8_t>(codes.bytes[at] | code << shift);
  }
  return codes;
}

TEST(VectorKernels, CodesCountLikeTheFloatsThatTheyMean) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t n : {2, 8, 14, 16, 18, 64, 100, 514}) {
      const std::vector<float> x = normal(kDotRows * n, 4);
      for (const int bits : {8, 4}) {
        const Codes codes = random_codes(n, bits);
        float out[kDotRows];
        float expected[kDotRows];
        kernels->dot_f32(x.data(), n, kDotRows, codes.values.data(), n, expected);
        (bits == 8 ? kernels->dot_u8 : kernels->dot_u4)(x.data(), n, kDotRows, codes.bytes.data(),
                                                        n, out);
        EXPECT_TRUE(std::equal(out, out + kDotRows, expected)) << bits << " bits, " << n;
        std::vector<float> y = normal(n, 6);
        std::vector<float> wanted = y;
        kernels->axpy_f32(0.3f, codes.values.data(), wanted.data(), n);
        (bits == 8 ? kernels->axpy_u8 : kernels->axpy_u4)(0.3f, codes.bytes.data(), y.data(), n);
        EXPECT_EQ(y, wanted) << bits << " bits, " << n;
      }
    }
  }
}

TEST(VectorKernels, ElementwiseAgreesWithPlainLoops) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t n : kLengths) {
      const std::vector<float> x = normal(n, 1);
      const std::vector<float> y0 = normal(n, 2);
      const auto half = narrowed<core::Fp16>(x);
      std::vector<float> y = y0;
      kernels->axpy_f32(0.5f, x.data(), y.data(), n);
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(y[i], y0[i] + 0.5f * x[i], 1e-6);
      }
      y = y0;
      kernels->axpy_f16(-2.0f, half.data(), y.data(), n);
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(y[i], y0[i] - 2.0f * core::to_float(half[i]), 1e-6);
      }
      std::vector<float> wide(y.size());
      kernels->widen_f16(half.data(), wide.data(), n);
      std::vector<core::Fp16> back(y.size());
      kernels->narrow_f16(wide.data(), back.data(), n);
      EXPECT_EQ(back, half);
      double squares = 0;
      for (const float value : x) {
        squares += static_cast<double>(value) * value;
      }
      EXPECT_NEAR(kernels->sum_squares(x.data(), n), squares, 1e-5 * squares);
    }
  }
}

TEST(VectorKernels, SoftmaxAndActivations) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t n : kLengths) {
      std::vector<float> x = normal(n, 5);
      for (float& value : x) {
        value *= 20.0f;
      }
      if (n > 3) {
        x[1] = -std::numeric_limits<float>::infinity();
      }
      std::vector<float> y(x.size());
      kernels->silu(x.data(), y.data(), n);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isfinite(x[i])) {
          EXPECT_NEAR(y[i], x[i] / (1 + std::exp(-static_cast<double>(x[i]))),
                      1e-6 * (1 + std::fabs(x[i])));
        }
      }
      kernels->gelu_tanh(x.data(), y.data(), n);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isfinite(x[i])) {
          const double v = x[i];
          const double expected =
              0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
          EXPECT_NEAR(y[i], expected, 2e-6 * (1 + std::fabs(v)));
        }
      }
      double sum = 0;
      float largest = x[0];
      for (const float value : x) {
        largest = std::max(largest, value);
      }
      std::vector<float> p = x;
      const float total = kernels->softmax_numerators(p.data(), n);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected =
            std::exp(static_cast<double>(x[i] - largest));  // the difference in float32
        EXPECT_NEAR(p[i], expected, 3e-7 * expected + 1e-37);
        sum += expected;
      }
      EXPECT_NEAR(total, sum, 1e-5 * sum);
    }
  }
}

TEST(VectorKernels, NanIsNotHidden) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    std::vector<float> x(20, 1.0f);
    x[9] = std::nanf("");
    std::vector<float> y(x.size());
    kernels->silu(x.data(), y.data(), 20);
    EXPECT_TRUE(std::isnan(y[9]));
    EXPECT_TRUE(std::isnan(kernels->sum_squares(x.data(), 20)));
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
