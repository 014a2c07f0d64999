#include "ops/gradient/attention_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/attention/rope.h"
#include "ops/cpu/dense/blas.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "ops/gradient/norm_gradient.h"

namespace nibble::ops::gradient {
namespace {

// y [m, n] = alpha op(a) op(b) + beta y.
struct Operand {
  const float* data = nullptr;
  std::int64_t stride = 0;
  CBLAS_TRANSPOSE order = CblasNoTrans;
};

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Operand& a,
              const Operand& b, float beta, float* y, std::int64_t ldy) {
  cpu::blas().sgemm(CblasRowMajor, a.order, b.order, static_cast<int>(m), static_cast<int>(n),
                    static_cast<int>(k), alpha, a.data, static_cast<int>(a.stride), b.data,
                    static_cast<int>(b.stride), beta, y, static_cast<int>(ldy));
}

// One KV head of one sequence, with the query heads that read it.
class GroupGradient {
 public:
  GroupGradient(const AttentionRecord& record, const cpu::Matrix& dout, cpu::Matrix& dqkv,
                const RowRange& rows, std::int64_t kv_head)
      : record_(record),
        spec_(record.spec),
        dout_(dout),
        dqkv_(dqkv),
        first_(rows.row),
        rows_(rows.rows),
        kv_head_(kv_head),
        scale_(1.0f / std::sqrt(static_cast<float>(spec_.head_dim))),
        probabilities_(static_cast<std::size_t>(rows_ * rows_)),
        slopes_(static_cast<std::size_t>(rows_ * rows_)),
        turned_(static_cast<std::size_t>(rows_ * spec_.head_dim)) {}

  void run() {
    const std::int64_t group = spec_.heads / spec_.kv_heads;
    const std::int64_t dim = spec_.head_dim;
    const std::int64_t width = dqkv_.columns();
    std::vector<float> dkey(static_cast<std::size_t>(rows_ * dim));
    for (std::int64_t h = kv_head_ * group; h < (kv_head_ + 1) * group; ++h) {
      compute_probabilities(h);
      const Operand p{probabilities_.data(), rows_, CblasTrans};
      const Operand dout{dout_.row(first_) + h * dim, dout_.columns()};
      multiply(rows_, dim, rows_, 1.0f, p, dout, 1.0f, dqkv_.row(first_) + value_head() * dim,
               width);
      compute_slopes(h);
      multiply(rows_, dim, rows_, scale_, {slopes_.data(), rows_}, head(key_head()), 0.0f,
               turned_.data(), dim);
      turn_back(h, spec_.q_norm, turned_);
      multiply(rows_, dim, rows_, scale_, {slopes_.data(), rows_, CblasTrans}, head(h), 1.0f,
               dkey.data(), dim);
    }
    turn_back(key_head(), spec_.k_norm, dkey);
  }

 private:
  std::int64_t key_head() const { return spec_.heads + kv_head_; }
  std::int64_t value_head() const { return spec_.heads + spec_.kv_heads + kv_head_; }
  Operand head(std::int64_t h) const {
    return {record_.turned.row(first_) + h * spec_.head_dim, record_.turned.columns()};
  }
  std::int64_t first_key(std::int64_t row) const {
    const std::int64_t window = spec_.mask.window;
    return window == 0 ? 0 : std::max<std::int64_t>(0, row - window + 1);
  }
  std::int64_t end_of_keys(std::int64_t row) const {
    return spec_.mask.bidirectional ? rows_ : row + 1;
  }

  void compute_probabilities(std::int64_t h) {
    Operand keys = head(key_head());
    keys.order = CblasTrans;
    multiply(rows_, rows_, spec_.head_dim, scale_, head(h), keys, 0.0f, probabilities_.data(),
             rows_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      float* row = probabilities_.data() + i * rows_;
      const std::int64_t begin = first_key(i);
      const std::int64_t end = end_of_keys(i);
      std::fill(row, row + begin, 0.0f);
      std::fill(row + end, row + rows_, 0.0f);
      const std::int64_t count = end - begin;
      const float sum = cpu::vector_kernels().softmax_numerators(row + begin, count);
      cpu::vector_kernels().scale(1.0f / sum, row + begin, count);
    }
  }

  // Gradient of the scores: P (dP - rowsum(P dP)), and the row's sum is dout . out.
  void compute_slopes(std::int64_t h) {
    const std::int64_t dim = spec_.head_dim;
    const std::int64_t values = value_head() * dim;
    multiply(rows_, rows_, dim, 1.0f, {dout_.row(first_) + h * dim, dout_.columns()},
             {record_.turned.row(first_) + values, record_.turned.columns(), CblasTrans}, 0.0f,
             slopes_.data(), rows_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      const float* dout = dout_.row(first_ + i) + h * dim;
      const float* out = record_.out.row(first_ + i) + h * dim;
      float sum = 0;
      for (std::int64_t d = 0; d < dim; ++d) {
        sum += dout[d] * out[d];
      }
      float* slope = slopes_.data() + i * rows_;
      const float* probability = probabilities_.data() + i * rows_;
      for (std::int64_t j = 0; j < rows_; ++j) {
        slope[j] = probability[j] * (slope[j] - sum);
      }
    }
  }

  // Adds to dqkv the gradient of a head before RoPE and QK norm.
  void turn_back(std::int64_t h, const std::vector<float>& weight, std::vector<float>& gradient) {
    const std::int64_t dim = spec_.head_dim;
    cpu::Rotation rotation;
    const Norm norm{"", NormKind::kRms, weight, {}, spec_.norm_eps};
    for (std::int64_t i = 0; i < rows_; ++i) {
      float* g = gradient.data() + i * dim;
      if (!spec_.inverse_frequency.empty()) {
        rotation.set(spec_.inverse_frequency,
                     record_.positions[static_cast<std::size_t>(first_ + i)], spec_.rope_factor);
        for (float& sine : rotation.sine) {
          sine = -sine;  // the transpose of the rotation
        }
        cpu::rotate(g, rotation);
      }
      float* to = dqkv_.row(first_ + i) + h * dim;
      if (weight.empty()) {
        cpu::vector_kernels().add(to, g, dim);
      } else {
        add_norm_gradient(norm, record_.qkv.row(first_ + i) + h * dim, g, to);
      }
    }
  }

  const AttentionRecord& record_;
  const AttentionSpec& spec_;
  const cpu::Matrix& dout_;
  cpu::Matrix& dqkv_;
  std::int64_t first_;
  std::int64_t rows_;
  std::int64_t kv_head_;
  float scale_;
  std::vector<float> probabilities_;  // [rows, rows]
  std::vector<float> slopes_;         // [rows, rows]
  std::vector<float> turned_;         // [rows, head_dim]
};

}  // namespace

void add_attention_gradient(const AttentionRecord& record, const cpu::Matrix& dout,
                            cpu::Matrix& dqkv, core::ThreadPool& pool) {
  const auto sequences = static_cast<std::int64_t>(record.sequences.size());
  const std::int64_t heads = record.spec.kv_heads;
  pool.parallel_for(sequences * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const RowRange& rows = record.sequences[static_cast<std::size_t>(task / heads)];
      GroupGradient(record, dout, dqkv, rows, task % heads).run();
    }
  });
}

}  // namespace nibble::ops::gradient
