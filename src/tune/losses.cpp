#include "tune/losses.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::tune {
namespace {

constexpr std::int64_t kRows = 8;  // of one task

// Logits become probabilities. Returns log of the sum of exp(logits).
double softmax(float* logits, std::int64_t n) {
  const float largest = *std::max_element(logits, logits + n);
  const float sum = ops::cpu::vector_kernels().softmax_numerators(logits, n);
  ops::cpu::vector_kernels().scale(1.0f / sum, logits, n);
  return static_cast<double>(largest) + std::log(static_cast<double>(sum));
}

// KL(p || q) = sum p (log p - log q), from probabilities p and what logits say of q.
double divergence(const float* p, double p_logsum, const float* p_logits, const float* q_logits,
                  double q_logsum, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(p[i]) * (static_cast<double>(p_logits[i]) - p_logsum -
                                        static_cast<double>(q_logits[i]) + q_logsum);
  }
  return sum;
}

class RowLoss {
 public:
  RowLoss(const LogitLoss& loss, double scale, std::int64_t n)
      : loss_(loss),
        scale_(scale),
        n_(n),
        own_(static_cast<std::size_t>(n)),
        theirs_(static_cast<std::size_t>(n)) {}

  // q: logits, which become the gradient; p: the teacher's.
  double run(float* q, float* p, std::int32_t label) {
    if (label < 0) {
      std::fill(q, q + n_, 0.0f);
      return 0;
    }
    double sum = 0;
    std::copy(q, q + n_, own_.begin());
    const double logsum = softmax(q, n_);
    const auto& kernels = ops::cpu::vector_kernels();
    kernels.scale(static_cast<float>(scale_ * (loss_.labels + loss_.logits)), q, n_);
    if (loss_.labels > 0) {
      sum += loss_.labels * (logsum - static_cast<double>(own_[static_cast<std::size_t>(label)]));
      q[label] -= static_cast<float>(scale_ * loss_.labels);
    }
    if (loss_.logits > 0) {
      std::copy(p, p + n_, theirs_.begin());
      const double their_logsum = softmax(p, n_);
      sum += loss_.logits * divergence(p, their_logsum, theirs_.data(), own_.data(), logsum, n_);
      kernels.axpy_f32(static_cast<float>(-scale_ * loss_.logits), p, q, n_);
    }
    return sum;
  }

 private:
  const LogitLoss& loss_;
  double scale_;
  std::int64_t n_;
  std::vector<float> own_;
  std::vector<float> theirs_;
};

}  // namespace

double logit_loss(const LogitLoss& loss, ops::cpu::Matrix& logits, ops::cpu::Matrix& teacher,
                  std::span<const std::int32_t> labels, double scale, core::ThreadPool& pool) {
  std::vector<double> losses(static_cast<std::size_t>(logits.rows()));
  pool.parallel_for(logits.rows(), kRows, [&](std::int64_t begin, std::int64_t end) {
    RowLoss row(loss, scale, logits.columns());
    for (std::int64_t i = begin; i < end; ++i) {
      losses[static_cast<std::size_t>(i)] =
          row.run(logits.row(i), loss.logits > 0 ? teacher.row(i) : nullptr,
                  labels[static_cast<std::size_t>(i)]);
    }
  });
  return scale * std::accumulate(losses.begin(), losses.end(), 0.0);
}

double square_loss(ops::cpu::Matrix& y, const ops::cpu::Matrix& target, double scale) {
  double sum = 0;
  for (std::int64_t i = 0; i < y.rows(); ++i) {
    float* row = y.row(i);
    const float* wanted = target.row(i);
    for (std::int64_t j = 0; j < y.columns(); ++j) {
      const float difference = row[j] - wanted[j];
      sum += static_cast<double>(difference) * static_cast<double>(difference);
      row[j] = static_cast<float>(2 * scale) * difference;
    }
  }
  return scale * sum;
}

}  // namespace nibble::tune
