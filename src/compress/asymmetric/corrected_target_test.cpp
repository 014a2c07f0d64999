#include "compress/asymmetric/corrected_target.h"

#include <cmath>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kInputs = 24;
constexpr std::int64_t kRows = 400;

// What the inputs were, what they have become, and their products.
struct Inputs {
  std::vector<float> before = core::normal_values(kRows * kInputs, 1);
  std::vector<float> after;
  std::vector<float> cross = std::vector<float>(kInputs * kInputs);
  std::vector<float> hessian = std::vector<float>(kInputs * kInputs);

  explicit Inputs(float noise) : after(core::normal_values(kRows * kInputs, 2)) {
    for (std::size_t i = 0; i < after.size(); ++i) {
      const float neighbour = i % kInputs == 0 ? 0.0f : before[i - 1];
      after[i] = 0.8f * before[i] + 0.3f * neighbour + noise * after[i];
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < kInputs; ++i) {
        for (std::size_t j = 0; j < kInputs; ++j) {
          const float x = after[row * kInputs + j];
          cross[i * kInputs + j] += before[row * kInputs + i] * x;
          hessian[i * kInputs + j] += j <= i ? after[row * kInputs + i] * x : 0.0f;
        }
      }
    }
  }

  // sum over rows of (w before - v after)^2
  double loss(const std::vector<float>& w, const std::vector<float>& v) const {
    double sum = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t first = 0; first < w.size(); first += kInputs) {
        double difference = 0;
        for (std::size_t j = 0; j < kInputs; ++j) {
          difference += static_cast<double>(w[first + j]) * before[row * kInputs + j] -
                        static_cast<double>(v[first + j]) * after[row * kInputs + j];
        }
        sum += difference * difference;
      }
    }
    return sum;
  }
};

TEST(Correction, UndoesALinearChangeOfTheInputs) {
  const Inputs inputs(0.0f);
  const auto w = core::normal_values(5 * kInputs, 3);
  auto v = w;
  multiply_rows(v, kInputs, correction(inputs.cross, inputs.hessian, kInputs, 0.0));
  EXPECT_GT(inputs.loss(w, w), 100.0);
  EXPECT_LT(inputs.loss(w, v), 1e-4);
}

TEST(Correction, IsTheLeastSquaresSolution) {
  const Inputs inputs(0.5f);
  const auto w = core::normal_values(5 * kInputs, 3);
  auto v = w;
  multiply_rows(v, kInputs, correction(inputs.cross, inputs.hessian, kInputs, 0.0));
  const double least = inputs.loss(w, v);
  EXPECT_LT(least, inputs.loss(w, w));
  for (const float step : {-0.01f, 0.01f}) {
    for (std::size_t i = 0; i < v.size(); i += 7) {
      auto moved = v;
      moved[i] += step;
      EXPECT_GT(inputs.loss(w, moved), least) << i;
    }
  }
}

TEST(Correction, LeavesInputsThatWereNeverActive) {
  Inputs inputs(0.5f);
  constexpr std::size_t kDead = 4;
  for (std::size_t j = 0; j < kInputs; ++j) {
    for (auto* m : {&inputs.cross, &inputs.hessian}) {
      (*m)[kDead * kInputs + j] = (*m)[j * kInputs + kDead] = 0;
    }
  }
  for (const double damp : {0.0, 0.01}) {  // without damping the Hessian is singular: it is raised
    const auto m = correction(inputs.cross, inputs.hessian, kInputs, damp);
    for (std::size_t j = 0; j < kInputs; ++j) {
      EXPECT_NEAR(m[kDead * kInputs + j], j == kDead ? 1.0 : 0.0, 1e-6);
      EXPECT_NEAR(m[j * kInputs + kDead], j == kDead ? 1.0 : 0.0, 1e-6);
    }
  }
}

}  // namespace
}  // namespace nibble::compress
