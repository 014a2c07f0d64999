#include "ops/cpu/vector/vector_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/random_values_for_tests.h"

namespace nibble::ops::cpu {
namespace {

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
  const std::vector<float> x = core::normal_values(kDotRows * (k + 5), 7);
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
      const std::vector<float> w = core::normal_values(k, 3);
      check_dot(kernels->dot_f32, w, k);
      check_dot(kernels->dot_f16, narrowed<core::Fp16>(w), k);
      check_dot(kernels->dot_bf16, narrowed<core::Bf16>(w), k);
    }
  }
}

// The kernels widen vectors to what they mean; products of many rows with many vectors are those of
// each row with each vector, bit for bit.
template <typename T, typename Dot, typename Widen>
void check_products(const VectorKernels& kernels, Dot dot, Widen widen, std::int64_t rows,
                    std::int64_t count, std::int64_t k) {
  const std::int64_t ldx = k + 3;
  const std::int64_t ldo = count + 2;
  const std::vector<float> x = core::normal_values(rows * ldx, 7);
  const auto w = narrowed<T>(core::normal_values(count * k, 3));
  std::vector<float> wide(w.size());
  widen(w.data(), wide.data(), count * k);
  std::vector<float> dots(static_cast<std::size_t>(rows * ldo), -7.0f);
  std::vector<float> scores = dots;
  const std::int64_t padded = (k + kernels.block - 1) / kernels.block * kernels.block;
  std::vector<float> filled(static_cast<std::size_t>(rows * padded));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(x.data() + i * ldx, k, filled.data() + i * padded);
  }
  std::vector<float> transposed(static_cast<std::size_t>((count + kernels.block) * padded));
  kernels.transpose(wide.data(), k, count, k, transposed.data());
  std::vector<float> packed_x(static_cast<std::size_t>((rows + kDotRows) * padded));
  kernels.pack_rows(x.data(), ldx, rows, k, packed_x.data());
  std::vector<float> packed_w(static_cast<std::size_t>((count + kernels.dot_columns) * padded));
  kernels.pack_columns(wide.data(), k, count, k, packed_w.data());
  kernels.dot_products(packed_x.data(), rows, packed_w.data(), count, k, dots.data(), ldo);
  kernels.score_transposed(filled.data(), padded, rows, transposed.data(), count, padded,
                           scores.data(), ldo);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < ldo; ++j) {
      float one_dot = -7.0f;
      float one_score = -7.0f;
      if (j < count) {
        dot(x.data() + i * ldx, ldx, 1, w.data() + j * k, k, &one_dot);
        kernels.score_f32(x.data() + i * ldx, ldx, 1, wide.data() + j * k, k, 1, k, &one_score, 1);
      }
      const auto at = static_cast<std::size_t>(i * ldo + j);
      ASSERT_EQ(dots[at], one_dot)
          << rows << " x " << count << " x " << k << " at " << i << ' ' << j;
      ASSERT_EQ(scores[at], one_score)
          << rows << " x " << count << " x " << k << " at " << i << ' ' << j;
    }
  }
}

TEST(VectorKernels, ProductsOfManyAreThoseOfEach) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    const auto check = [&](std::int64_t rows, std::int64_t count, std::int64_t k) {
      check_products<core::Fp16>(*kernels, kernels->dot_f16, kernels->widen_f16, rows, count, k);
      check_products<core::Bf16>(*kernels, kernels->dot_bf16, kernels->widen_bf16, rows, count, k);
    };
    for (const std::int64_t k : kLengths) {
      check(5, 7, k);
    }
    for (std::int64_t rows = 1; rows < 10; ++rows) {
      for (std::int64_t count = 1; count < 15; ++count) {
        check(rows, count, 71);
      }
    }
    for (const std::int64_t k : {1023, 1024, 1056, 2060, 4096, 4113}) {
      check(6, 8, k);
    }
    check(131, 13, 96);
    check(3, 50, 20);
  }
}

// Mixtures of vectors in every type, `bits` to an element, against plain loops over the floats they
// mean.
template <typename T>
void check_mixtures(VectorKernels::Mix<T> mix, const T* vectors, int bits,
                    const std::vector<float>& values, std::int64_t stride, std::int64_t n) {
  constexpr std::int64_t kCount = 7;
  const std::vector<float> weights = core::normal_values(kDotRows * kCount, 5);
  for (std::int64_t rows = 1; rows <= kDotRows; ++rows) {
    std::vector<float> mixed(static_cast<std::size_t>(rows * (n + 2)));
    mix(weights.data(), kCount, rows, vectors, stride, kCount, n, mixed.data(), n + 2);
    std::vector<float> in_two(mixed.size());
    for (const auto& [from, count] : {std::pair{0, 3}, {3, 4}}) {
      const T* first = reinterpret_cast<const T*>(reinterpret_cast<const char*>(vectors) +
                                                  from * stride * bits / 8);
      mix(weights.data() + from, kCount, rows, first, stride, count, n, in_two.data(), n + 2);
    }
    EXPECT_EQ(in_two, mixed) << "a mixture must go on where it stood";
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t d = 0; d < n; ++d) {
        double sum = 0;
        double absolute = 0;
        for (std::int64_t j = 0; j < kCount; ++j) {
          const double product =
              static_cast<double>(weights[static_cast<std::size_t>(i * kCount + j)]) *
              values[static_cast<std::size_t>(j * stride + d)];
          sum += product;
          absolute += std::fabs(product);
        }
        EXPECT_NEAR(mixed[static_cast<std::size_t>(i * (n + 2) + d)], sum, 1e-6 * absolute + 1e-30);
      }
    }
  }
}

// The same for products.
template <typename T>
void check_scores(VectorKernels::Score<T> score, const T* vectors, const std::vector<float>& values,
                  std::int64_t stride, std::int64_t n) {
  constexpr std::int64_t kCount = 7;
  const std::vector<float> x = core::normal_values(kDotRows * (n + 3), 4);
  for (std::int64_t rows = 1; rows <= kDotRows; ++rows) {
    std::vector<float> scores(static_cast<std::size_t>(rows * kCount), NAN);
    score(x.data(), n + 3, rows, vectors, stride, kCount, n, scores.data(), kCount);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < kCount; ++j) {
        double sum = 0;
        double absolute = 0;
        for (std::int64_t d = 0; d < n; ++d) {
          const double product = static_cast<double>(x[static_cast<std::size_t>(i * (n + 3) + d)]) *
                                 values[static_cast<std::size_t>(j * stride + d)];
          sum += product;
          absolute += std::fabs(product);
        }
        EXPECT_NEAR(scores[static_cast<std::size_t>(i * kCount + j)], sum, 1e-6 * absolute + 1e-30);
      }
    }
  }
}

TEST(VectorKernels, ScoresAndMixturesOfVectors) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t n : {2, 8, 14, 16, 18, 64, 100, 128, 130}) {
      const std::int64_t stride = n + 6;
      const std::vector<float> values = core::normal_values(7 * stride, 3);
      check_scores(kernels->score_f32, values.data(), values, stride, n);
      check_mixtures(kernels->mix_f32, values.data(), 32, values, stride, n);
      const auto half = narrowed<core::Fp16>(values);
      std::vector<float> rounded;
      for (const core::Fp16 value : half) {
        rounded.push_back(core::to_float(value));
      }
      check_scores(kernels->score_f16, half.data(), rounded, stride, n);
      check_mixtures(kernels->mix_f16, half.data(), 16, rounded, stride, n);
      std::vector<core::E4m3> eighths;
      std::vector<float> coarse;
      for (const float value : values) {
        eighths.push_back(core::to_e4m3(value));
        coarse.push_back(core::to_float(eighths.back()));
      }
      check_scores(kernels->score_e4m3, eighths.data(), coarse, stride, n);
      check_mixtures(kernels->mix_e4m3, eighths.data(), 8, coarse, stride, n);
    }
  }
}

// Vectors side by side are scored as the floats that they mean.
TEST(VectorKernels, ScoresOfVectorsSideBySide) {
  constexpr std::int64_t kVectors = 16;
  constexpr std::int64_t kLd = 20;
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t n : {2, 8, 16, 24, 64, 80, 128, 130}) {
      const std::int64_t padded = (n + 15) / 16 * 16;
      const std::vector<float> values = core::normal_values(kVectors * n, 3);
      std::vector<core::E4m3> codes(static_cast<std::size_t>(padded * 16));
      std::vector<float> coarse(values.size());
      std::vector<float> x(static_cast<std::size_t>(kDotRows * padded));
      const std::vector<float> queries = core::normal_values(kDotRows * n, 4);
      for (std::int64_t i = 0; i < kDotRows; ++i) {
        std::copy_n(queries.data() + i * n, n, x.data() + i * padded);
      }
      for (std::int64_t j = 0; j < kVectors; ++j) {
        for (std::int64_t d = 0; d < n; ++d) {
          const auto at = static_cast<std::size_t>(j * n + d);
          const core::E4m3 code = core::to_e4m3(values[at]);
          codes[static_cast<std::size_t>(d * 16 + j)] = code;
          coarse[at] = core::to_float(code);
        }
      }
      for (std::int64_t rows = 1; rows <= kDotRows; ++rows) {
        std::vector<float> right(static_cast<std::size_t>(rows * kLd), -7.0f);
        std::vector<float> out = right;
        kernels->score_f32(queries.data(), n, rows, coarse.data(), n, kVectors, n, right.data(),
                           kLd);
        kernels->score_side_by_side(x.data(), padded, rows, codes.data(), padded, out.data(), kLd);
        EXPECT_EQ(out, right) << rows << " x " << n;
      }
    }
  }
}

TEST(VectorKernels, AllE4m3AsFloats) {
  std::vector<core::E4m3> codes;
  for (int code = 0; code < 256 + 3; ++code) {
    codes.push_back(core::E4m3{static_cast<std::uint8_t>(code)});
  }
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    std::vector<float> wide(codes.size());
    kernels->widen_e4m3(codes.data(), wide.data(), std::ssize(codes));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const float right = core::to_float(codes[i]);
      EXPECT_TRUE(wide[i] == right || (std::isnan(wide[i]) && std::isnan(right)))
          << kernels->isa << ' ' << i;
      EXPECT_TRUE(std::isnan(right) || std::signbit(wide[i]) == std::signbit(right)) << i;
    }
  }
}

TEST(VectorKernels, ElementwiseAgreesWithPlainLoops) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t n : kLengths) {
      const std::vector<float> x = core::normal_values(n, 1);
      const std::vector<float> y0 = core::normal_values(n, 2);
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
      std::vector<float> x = core::normal_values(n, 5);
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
      std::vector<float> capped = x;
      kernels->softcap(15.0f, capped.data(), n);
      for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(capped[i], 15.0 * std::tanh(static_cast<double>(x[i]) / 15.0), 1.5e-5);
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

TEST(VectorKernels, GeluIsThatOfErf) {
  constexpr std::int64_t kSteps = 300'000;
  std::vector<float> x;
  for (std::int64_t i = -kSteps; i <= kSteps; ++i) {
    x.push_back(15.0f * static_cast<float>(i) / static_cast<float>(kSteps));
  }
  for (const float magnitude : {0.0f, 1e-30f, 1e-6f, 19.9f, 20.1f, 100.0f, 3e38f}) {
    x.push_back(magnitude);
    x.push_back(-magnitude);
  }
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    std::vector<float> y(x.size(), NAN);
    kernels->gelu(x.data(), y.data(), std::ssize(x));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      const double right = 0.5 * v * std::erfc(-v * 0.70710678118654752440);
      ASSERT_NEAR(y[i], right, 1.5e-7 * std::max(1.0, std::fabs(v))) << kernels->isa << ' ' << v;
    }
  }
}

TEST(VectorKernels, GeluOfShortVectorsWritesNoMore) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    for (const std::int64_t n : kLengths) {
      const std::vector<float> x = core::normal_values(n, 5);
      std::vector<float> y(x.size() + 1, -7.0f);
      kernels->gelu(x.data(), y.data(), n);
      EXPECT_EQ(y.back(), -7.0f) << kernels->isa << ' ' << n;
      const double v = x.back();
      EXPECT_NEAR(y[x.size() - 1], 0.5 * v * std::erfc(-v * 0.70710678118654752440), 1e-6);
    }
  }
}

TEST(VectorKernels, GeluAtTheEndsOfFloat) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    const std::vector<float> x = {infinity, -infinity, std::nanf("")};
    std::vector<float> y(x.size());
    kernels->gelu(x.data(), y.data(), 3);
    EXPECT_EQ(y[0], infinity) << kernels->isa;
    EXPECT_EQ(y[1], 0.0f) << kernels->isa;
    EXPECT_TRUE(std::isnan(y[2])) << kernels->isa;
  }
}

// The steps of LayerNorm, on values about a centre that is not 0.
TEST(VectorKernels, NormalizesRows) {
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t n : kLengths) {
      std::vector<float> x = core::normal_values(n, 1);
      const std::vector<float> w = core::normal_values(n, 2);
      const std::vector<float> b = core::normal_values(n, 3);
      double sum = 0;
      double magnitude = 0;
      for (float& value : x) {
        value += 3.0f;
        sum += value;
        magnitude += std::fabs(value);
      }
      EXPECT_NEAR(kernels->sum(x.data(), n), sum, 1e-6 * magnitude);
      const float mean = 2.5f;
      double squares = 0;
      for (const float value : x) {
        squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
      }
      EXPECT_NEAR(kernels->sum_squares_about(x.data(), mean, n), squares, 2e-6 * squares);
      std::vector<float> y(x.size());
      std::vector<float> without(x.size());
      kernels->normalize(x.data(), mean, 0.3f, w.data(), b.data(), y.data(), n);
      kernels->normalize(x.data(), mean, 0.3f, w.data(), nullptr, without.data(), n);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double right = (static_cast<double>(x[i]) - mean) * 0.3f * w[i];
        EXPECT_NEAR(without[i], right, 3e-7 * std::fabs(right));
        EXPECT_NEAR(y[i], right + b[i], 4e-7 * (std::fabs(right) + std::fabs(b[i])));
      }
    }
  }
}

TEST(VectorKernels, LargestOfRunsAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    for (const std::int64_t run : {1, 16, 20, 256}) {
      for (const std::int64_t n : {1, 7, 16, 31, 256, 257, 700}) {
        SCOPED_TRACE(std::string(kernels->isa) + ", runs of " + std::to_string(run) + " in " +
                     std::to_string(n));
        std::vector<float> x = core::normal_values(n, static_cast<std::uint64_t>(n + run));
        for (float& each : x) {
          each -= 9.0f;  // all below zero, which no lane may hold of its own
        }
        x[static_cast<std::size_t>(n / 2)] = -kInfinity;
        x[static_cast<std::size_t>(n / 3)] =
            n > 16 ? kInfinity : x[static_cast<std::size_t>(n / 3)];
        std::vector<float> right;
        for (std::int64_t begin = 0; begin < n; begin += run) {
          right.push_back(
              *std::max_element(x.begin() + begin, x.begin() + std::min(n, begin + run)));
        }
        std::vector<float> largest(right.size() + 1, 77.0f);
        EXPECT_FALSE(kernels->largest_of_runs(x.data(), n, run, largest.data()));
        EXPECT_EQ(largest.back(), 77.0f) << "written behind the end";
        largest.pop_back();
        EXPECT_EQ(largest, right);
        for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
          std::vector<float> broken = x;
          broken[static_cast<std::size_t>(at)] = at % 2 == 0 ? std::nanf("") : -std::nanf("");
          EXPECT_TRUE(kernels->largest_of_runs(broken.data(), n, run, largest.data())) << at;
        }
      }
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
