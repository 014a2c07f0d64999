#include <cmath>
#include <numeric>

#include "compress/any4/learned_books.h"
#include "compress/arithmetic.h"
#include "compress/awq/clip_search.h"
#include "compress/awq/scale_search.h"
#include "compress/gptq/gptq.h"
#include "compress/layer_for_tests.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"

// Each piece of arithmetic of the GPU beside that of the CPU.
namespace nibble::compress {
namespace {

using formats::parse_scheme;
using formats::Scheme;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

class CudaArithmetic : public device::GpuTest {
 protected:
  void SetUp() override {
    device::GpuTest::SetUp();
    if (!IsSkipped()) {
      poison();
      gpu_ = make_cuda_arithmetic(0, pool_);
    }
  }

  // What a kernel does not write shall be seen: memory that is allocated from here on holds NaN.
  static void poison() {
    const device::cuda::Buffer memory(std::int64_t{1} << 30);
    device::cuda::check(cudaMemset(memory.data(), 0xff, std::size_t{1} << 30), "cudaMemset");
  }

  core::ThreadPool pool_{2};
  CpuArithmetic cpu_{pool_};
  std::unique_ptr<Arithmetic> gpu_;
};

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

TEST_F(CudaArithmetic, FactorsTheInverse) {
  for (const std::int64_t k : {1, 5, 40, 129, 300}) {
    const auto hessian = correlated_hessian(k, 2 * k + 3, 1);
    for (const bool descending : {false, true}) {
      const auto on = [&](Arithmetic& arithmetic) {
        return inverse_factor(hessian, k, 0.01, descending, [&](const OrderedHessian& ordered) {
          return arithmetic.factor(ordered);
        });
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

TEST_F(CudaArithmetic, SaysWhichHessianHasNoFactor) {
  constexpr std::int64_t kSize = 40;
  const auto hessian = correlated_hessian(kSize, 11, 1);  // of rank 11
  std::vector<std::int64_t> order(kSize);
  std::iota(order.begin(), order.end(), 0);
  const std::vector<bool> dead(kSize);
  EXPECT_EQ(gpu_->factor({hessian, order, dead, -1.0}), std::nullopt);
  EXPECT_NE(gpu_->factor({hessian, order, dead, 100.0}), std::nullopt);
}

// A book for each row, or integers: whatever the scheme stores.
Parameters parameters_for(const std::vector<float>& w, std::int64_t n, std::int64_t k,
                          const Scheme& scheme, CpuArithmetic& cpu) {
  if (scheme.code.book != formats::Book::kPerRow && scheme.code.book != formats::Book::kPerMatrix) {
    return fit_parameters(w, n, k, scheme, cpu.pool());
  }
  const std::vector<float> ones(index(k), 1.0f);
  return learn_books(w, n, k, scheme, ones, {}, cpu);
}

TEST_F(CudaArithmetic, RoundsByGptq) {
  struct Shape {
    std::int64_t n, k;
  };
  for (const char* text : {"int4-asym-g32", "int3-asym-g64", "int4-sym-g128", "int8-sym-row",
                           "lut4-nf4-g32", "lut4-row-g64", "lut4-matrix-g64", "lut3-row-g64"}) {
    const Scheme scheme = parse_scheme(text);
    ASSERT_TRUE(gpu_->on_gpu(Task::kGptq, scheme));
    for (const Shape& shape : {Shape{1, 40}, {7, 128}, {70, 200}, {33, 331}, {130, 512}}) {
      const auto [n, k] = shape;
      const auto w = normal(n * k, 7);
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
        const auto on = [&](Arithmetic& arithmetic) {
          return arithmetic.gptq(
              w, n, k, scheme, parameters_for(w, n, k, scheme, cpu_), factor,
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

TEST_F(CudaArithmetic, LeavesToTheCpuWhatItHasNoKernelsFor) {
  const Scheme scheme = parse_scheme("mxfp4");
  EXPECT_FALSE(gpu_->on_gpu(Task::kGptq, scheme));
  constexpr std::int64_t kOutputs = 4;
  constexpr std::int64_t kInputs = 64;
  const auto w = normal(kOutputs * kInputs, 7);
  const InverseFactor factor =
      inverse_factor(correlated_hessian(kInputs, 100, 8), kInputs, 0.01, true);
  const auto on = [&](Arithmetic& arithmetic) {
    return arithmetic
        .gptq(w, kOutputs, kInputs, scheme, fit_parameters(w, kOutputs, kInputs, scheme, pool_),
              factor, {})
        .codes;
  };
  EXPECT_EQ(on(*gpu_), on(cpu_));
}

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
      layer.target = normal(linear->weight.n * k, ++seed);
      layer.weights = layer.target;
      set.layers.push_back(std::move(layer));
    }
    ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
    auto x = ops.matrix(2 * k, k);
    const auto noise = normal(2 * k * k, 5);
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
                                       "int8-sym-g32",  "lut4-nf4-g64", "lut4-fp4-g32"};

TEST_F(CudaArithmetic, JudgesScalesForAwq) {
  for (const char* text : kAwqSchemes) {
    for (const std::int64_t k : {64, 200, 330}) {
      for (const std::int64_t n : {3, 600}) {
        const AwqCase example(text, n, k);
        ASSERT_TRUE(gpu_->on_gpu(Task::kAwq, example.set.layers.front().scheme));
        std::vector<std::vector<float>> scales;
        for (int i = 0; i < 3; ++i) {
          scales.push_back(normal(k, 20 + static_cast<std::uint64_t>(i)));
          for (float& s : scales.back()) {
            s = std::exp(0.3f * s);
          }
        }
        const auto expected = cpu_.errors_of_scales(example.set, scales);
        const auto got = gpu_->errors_of_scales(example.set, scales);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(got[i], expected[i], 1e-4 * expected[i]) << text << " " << n << " " << k;
        }
      }
    }
  }
}

TEST_F(CudaArithmetic, ClipsForAwq) {
  for (const char* text : kAwqSchemes) {
    for (const std::int64_t k : {64, 200, 330}) {
      AwqCase expected(text, 70, k);
      AwqCase got(text, 70, k);
      cpu_.clip(expected.set);
      gpu_->clip(got.set);
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

// Rows of several kinds: normal, all zero, of few values, of one value.
std::vector<float> rows_for_books(std::int64_t n, std::int64_t k) {
  std::vector<float> w = normal(n * k, 31);
  for (std::int64_t j = 0; j < k; ++j) {
    if (n > 3) {
      w[index(k + j)] = 0;
      w[index(2 * k + j)] = static_cast<float>(j % 5) - 2;
      w[index(3 * k + j)] = 0.25f;
    }
  }
  return w;
}

// Each step of learning books, from the same state.
TEST_F(CudaArithmetic, TakesTheStepsOfLearningBooks) {
  struct Shape {
    std::int64_t n, k;
  };
  for (const char* text : {"lut4-row-g64", "lut3-row-g32", "lut2-row-g64", "lut4-row-row"}) {
    for (const Shape& shape : {Shape{1, 3}, {5, 40}, {9, 320}, {6, 1111}}) {
      for (const BookWeights kind : {BookWeights::kExact, BookWeights::kRoot}) {
        const auto [n, k] = shape;
        const std::string what = fmt::format("{} [{}, {}]", text, n, k);
        const std::vector<float> w = rows_for_books(n, k);
        std::vector<float> energies = normal(k, 9);
        for (float& energy : energies) {
          energy = energy * energy;
        }
        energies.front() = 0;  // an input that never was active
        const BookProblem problem{w, n, k, parse_scheme(text), energies, kind};
        ASSERT_TRUE(gpu_->on_gpu(Task::kBooks, problem.scheme));
        const auto cpu = cpu_.book_steps(problem);
        const auto gpu = gpu_->book_steps(problem);
        std::vector<std::int64_t> rows;  // not all of them, and not in order
        for (std::int64_t row = n - 1; row >= 0; row -= row == 4 ? 2 : 1) {
          rows.push_back(row);
        }
        cpu->fit_largest();
        gpu->fit_largest();
        const auto scales_differ = [&](double tolerance) {
          const auto a = gpu->groups();
          const auto b = cpu->groups();
          EXPECT_EQ(a.size(), b.size()) << what;
          std::size_t different = 0;
          for (std::size_t i = 0; i < b.size(); ++i) {
            different +=
                std::abs(a[i].scale - b[i].scale) > tolerance * std::abs(b[i].scale) ? 1 : 0;
          }
          return different;
        };
        EXPECT_EQ(scales_differ(0), 0u) << what;
        const auto books = cpu->learn(rows);
        const auto learned = gpu->learn(rows);
        ASSERT_EQ(learned.size(), books.size());
        const auto near = [&](const std::vector<double>& a, const std::vector<double>& b,
                              double tolerance) {
          ASSERT_EQ(a.size(), b.size());
          for (std::size_t i = 0; i < b.size(); ++i) {
            EXPECT_NEAR(a[i], b[i], tolerance * b[i] + 1e-12) << what << " row " << rows[i];
          }
        };
        const std::size_t size = books.size() / rows.size();
        for (std::size_t i = 0; i < books.size(); ++i) {
          const std::int64_t row = rows[i / size];
          const bool has_few_values = n > 3 && row >= 1 && row <= 3;  // several books are best
          if (!has_few_values) {
            EXPECT_NEAR(learned[i], books[i], 1e-4) << what << " " << i;
          }
        }
        const auto losses = cpu->losses(rows, books);
        near(gpu->losses(rows, books), losses, 1e-9);
        near(gpu->losses(rows, learned), losses, 1e-4);
        for (const int steps : {0, 8}) {
          near(gpu->fit_scales(rows, books, steps), cpu->fit_scales(rows, books, steps), 1e-6);
          EXPECT_EQ(scales_differ(0), 0u) << what << " " << steps;
        }
      }
    }
  }
}

TEST_F(CudaArithmetic, LearnsBooks) {
  constexpr std::int64_t kOutputs = 20;
  constexpr std::int64_t kInputs = 700;
  const auto w = rows_for_books(kOutputs, kInputs);
  std::vector<float> energies = normal(kInputs, 9);
  for (float& energy : energies) {
    energy = energy * energy + 0.01f;
  }
  const Scheme scheme = parse_scheme("lut4-row-g64");
  const auto loss_on = [&](Arithmetic& arithmetic) {
    const auto coded =
        round_with(w, kOutputs, kInputs, scheme,
                   learn_books(w, kOutputs, kInputs, scheme, energies, {}, arithmetic), pool_);
    const auto packed = pack(coded, kOutputs, kInputs, scheme);
    std::vector<float> row(index(kInputs));
    double sum = 0;
    for (std::int64_t i = 0; i < kOutputs; ++i) {
      formats::decode_row(packed, i, row);
      for (std::size_t j = 0; j < row.size(); ++j) {
        const double error = w[index(i * kInputs) + j] - row[j];
        sum += energies[j] * error * error;
      }
    }
    return sum;
  };
  const double expected = loss_on(cpu_);
  EXPECT_NEAR(loss_on(*gpu_), expected, 0.002 * expected);
}

TEST_F(CudaArithmetic, NamesAWeightThatIsNotFinite) {
  auto w = normal(3 * 64, 1);
  w[70] = std::nanf("");
  const std::vector<float> ones(64, 1.0f);
  try {
    (void)learn_books(w, 3, 64, parse_scheme("lut4-row-g64"), ones, {}, *gpu_);
    FAIL() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("row 1"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nibble::compress
