#include "ops/gradient/head_gradient.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/dense/blas.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "ops/gradient/attention_scores.h"

namespace nibble::ops::gradient {
namespace {

// y [m, n] = alpha op(a) op(b) + beta y.
struct Operand {
  const float* data = nullptr;
  std::int64_t stride = 0;
  CBLAS_TRANSPOSE order = CblasNoTrans;
};

Operand plain(const HeadView& view) {
  return {view.data, view.stride};
}

Operand transposed(const HeadView& view) {
  return {view.data, view.stride, CblasTrans};
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Operand& a,
              const Operand& b, float beta, float* y, std::int64_t ldy) {
  cpu::blas().sgemm(CblasRowMajor, a.order, b.order, static_cast<int>(m), static_cast<int>(n),
                    static_cast<int>(k), alpha, a.data, static_cast<int>(a.stride), b.data,
                    static_cast<int>(b.stride), beta, y, static_cast<int>(ldy));
}

KeyRange keys_of(const HeadRecord& head, std::int64_t row) {
  return visible_keys(head.mask, row, head.keys);
}

}  // namespace

HeadGradient::HeadGradient(std::int64_t rows, std::int64_t keys)
    : probabilities_(static_cast<std::size_t>(rows * keys)),
      slopes_(static_cast<std::size_t>(rows * keys)) {}

void HeadGradient::run(const HeadRecord& head, float* dq, float* dk, float* dv,
                       std::int64_t dv_stride) {
  const float scale = head.scale;
  compute_probabilities(head);
  multiply(head.keys, head.dim, head.rows, 1.0f, {probabilities_.data(), head.keys, CblasTrans},
           plain(head.dout), 1.0f, dv, dv_stride);
  compute_slopes(head);
  multiply(head.rows, head.dim, head.keys, scale, {slopes_.data(), head.keys}, plain(head.k), 0.0f,
           dq, head.dim);
  multiply(head.keys, head.dim, head.rows, scale, {slopes_.data(), head.keys, CblasTrans},
           plain(head.q), 1.0f, dk, head.dim);
}

void HeadGradient::compute_probabilities(const HeadRecord& head) {
  multiply(head.rows, head.keys, head.dim, head.scale, plain(head.q), transposed(head.k), 0.0f,
           probabilities_.data(), head.keys);
  if (head.softcap > 0.0f) {
    cap_slopes_.resize(probabilities_.size());
    for (std::size_t i = 0; i < probabilities_.size(); ++i) {
      const float share = std::tanh(probabilities_[i] / head.softcap);
      probabilities_[i] = head.softcap * share;
      cap_slopes_[i] = 1.0f - share * share;
    }
  }
  for (std::int64_t i = 0; i < head.rows; ++i) {
    float* row = probabilities_.data() + i * head.keys;
    const auto [begin, end] = keys_of(head, i);
    std::fill(row, row + begin, 0.0f);
    std::fill(row + end, row + head.keys, 0.0f);
    const std::int64_t count = end - begin;
    const float sum = cpu::vector_kernels().softmax_numerators(row + begin, count);
    cpu::vector_kernels().scale(1.0f / sum, row + begin, count);
  }
}

// Gradient of the scores: P (dP - rowsum(P dP)), and the row's sum is dout . out; and what the loss
// asks of them directly. Through a softcap it takes its slope.
void HeadGradient::compute_slopes(const HeadRecord& head) {
  multiply(head.rows, head.keys, head.dim, 1.0f, plain(head.dout), transposed(head.v), 0.0f,
           slopes_.data(), head.keys);
  for (std::int64_t i = 0; i < head.rows; ++i) {
    const float* dout = head.dout.data + i * head.dout.stride;
    const float* out = head.out.data + i * head.out.stride;
    float sum = 0;
    for (std::int64_t d = 0; d < head.dim; ++d) {
      sum += dout[d] * out[d];
    }
    float* slope = slopes_.data() + i * head.keys;
    const float* probability = probabilities_.data() + i * head.keys;
    for (std::int64_t j = 0; j < head.keys; ++j) {
      slope[j] = probability[j] * (slope[j] - sum);
    }
    const auto [begin, end] = keys_of(head, i);
    for (std::int64_t j = begin; head.dscores != nullptr && j < end; ++j) {
      slope[j] += head.dscores[i * head.keys + j];
    }
    const float* cap = cap_slopes_.data() + i * head.keys;
    for (std::int64_t j = 0; head.softcap > 0.0f && j < head.keys; ++j) {
      slope[j] *= cap[j];
    }
  }
}

}  // namespace nibble::ops::gradient
