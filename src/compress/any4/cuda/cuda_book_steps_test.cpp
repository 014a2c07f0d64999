#include <cmath>

#include "compress/any4/learned_books.h"
#include "compress/backend/cuda/backend_for_tests.h"
#include "compress/block/layer_for_tests.h"

// Learning books on the GPU beside the CPU.
namespace nibble::compress {
namespace {

using formats::parse_scheme;
using formats::Scheme;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

using CudaBooks = GpuBackendTest;

// Rows of several kinds: normal, all zero, of few values, of one value.
std::vector<float> rows_for_books(std::int64_t n, std::int64_t k) {
  std::vector<float> w = core::normal_values(n * k, 31);
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
TEST_F(CudaBooks, TakesTheStepsOfLearningBooks) {
  struct Shape {
    std::int64_t n, k;
  };
  for (const char* text : {"lut4-row-g64", "lut3-row-g32", "lut2-row-g64", "lut4-row-row"}) {
    for (const Shape& shape : {Shape{1, 3}, {5, 40}, {9, 320}, {6, 1111}}) {
      for (const BookWeights kind : {BookWeights::kExact, BookWeights::kRoot}) {
        const auto [n, k] = shape;
        const std::string what = fmt::format("{} [{}, {}]", text, n, k);
        const std::vector<float> w = rows_for_books(n, k);
        std::vector<float> energies = core::normal_values(k, 9);
        for (float& energy : energies) {
          energy = energy * energy;
        }
        energies.front() = 0;  // an input that never was active
        const BookProblem problem{w, n, k, parse_scheme(text), energies, kind};
        ASSERT_TRUE(books_run_on_gpu(problem.scheme));
        const auto cpu = make_book_steps(problem, cpu_);
        const auto gpu = make_book_steps(problem, *gpu_);
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

TEST_F(CudaBooks, LearnsBooks) {
  constexpr std::int64_t kOutputs = 20;
  constexpr std::int64_t kInputs = 700;
  const auto w = rows_for_books(kOutputs, kInputs);
  std::vector<float> energies = core::normal_values(kInputs, 9);
  for (float& energy : energies) {
    energy = energy * energy + 0.01f;
  }
  const Scheme scheme = parse_scheme("lut4-row-g64");
  const auto loss_on = [&](const Backend& backend) {
    const auto coded =
        round_with(w, kOutputs, kInputs, scheme,
                   learn_books(w, kOutputs, kInputs, scheme, energies, {}, backend), pool_);
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

TEST_F(CudaBooks, NamesAWeightThatIsNotFinite) {
  auto w = core::normal_values(3 * 64, 1);
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
