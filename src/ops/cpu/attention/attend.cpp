#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/float8.h"
#include "ops/cpu/attention/attention.h"
#include "ops/cpu/vector/scratch.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kQueryRows = 64;   // heads times positions whose scores exist at a time
constexpr std::int64_t kL1Floats = 8192;  // of values that stay in the L1 cache while rows pass

std::int64_t first_key(const AttentionProblem& p, std::int64_t position) {
  return p.mask.window > 0 ? std::max<std::int64_t>(0, position - p.mask.window + 1) : 0;
}

std::int64_t key_count(const AttentionProblem& p) {
  return p.memory_rows > 0 ? p.memory_rows : p.first_position + p.rows;
}

std::int64_t end_of_keys(const AttentionProblem& p, std::int64_t position) {
  return p.mask.bidirectional ? key_count(p) : position + 1;
}

// Products q . k of one row to their shares, which sum to 1.
void make_shares(const AttentionProblem& p, float* scores, std::int64_t count) {
  const VectorKernels& kernels = vector_kernels();
  kernels.scale(p.scale, scores, count);
  if (p.softcap > 0.0f) {
    kernels.softcap(p.softcap, scores, count);
  }
  const float sum = kernels.softmax_numerators(scores, count);
  kernels.scale(1.0f / sum, scores, count);
}

const float* f32_row(const KvView& view, std::int64_t j) {
  return static_cast<const float*>(view.data) + j * view.stride;
}
const core::Fp16* f16_row(const KvView& view, std::int64_t j) {
  return static_cast<const core::Fp16*>(view.data) + j * view.stride;
}
const core::E4m3* fp8_row(const KvView& view, std::int64_t j) {
  return static_cast<const core::E4m3*>(view.data) + j * view.stride;
}
const std::uint8_t* int8_row(const KvView& view, std::int64_t j) {
  return static_cast<const std::uint8_t*>(view.data) + j * view.stride;
}
const std::uint8_t* int4_row(const KvView& view, std::int64_t j) {
  return static_cast<const std::uint8_t*>(view.data) + j * view.stride / 2;
}

// out[r * ldo + j - begin] = row r . vector j, codes of integers taken as they are.
void score_codes(const KvView& view, const float* q, std::int64_t rows, std::int64_t begin,
                 std::int64_t end, std::int64_t dim, float* out, std::int64_t ldo) {
  const VectorKernels& kernels = vector_kernels();
  const auto run = [&](auto score, const auto* vectors) {
    score(q, dim, rows, vectors, view.stride, end - begin, dim, out, ldo);
  };
  switch (view.type) {
    case KvType::kF32:
      return run(kernels.score_f32, f32_row(view, begin));
    case KvType::kF16:
      return run(kernels.score_f16, f16_row(view, begin));
    case KvType::kFp8:
      return run(kernels.score_e4m3, fp8_row(view, begin));
    case KvType::kInt8:
      return run(kernels.score_u8, int8_row(view, begin));
    case KvType::kInt4:
      return run(kernels.score_u4, int4_row(view, begin));
  }
}

// out row r += sum over j of weights[r * ldw + j - begin] * vector j, codes as they are.
void mix_codes(const KvView& view, const float* weights, std::int64_t ldw, std::int64_t rows,
               std::int64_t begin, std::int64_t end, std::int64_t dim, float* out) {
  const VectorKernels& kernels = vector_kernels();
  const auto run = [&](auto mix, const auto* vectors) {
    mix(weights, ldw, rows, vectors, view.stride, end - begin, dim, out, dim);
  };
  switch (view.type) {
    case KvType::kF32:
      return run(kernels.mix_f32, f32_row(view, begin));
    case KvType::kF16:
      return run(kernels.mix_f16, f16_row(view, begin));
    case KvType::kFp8:
      return run(kernels.mix_e4m3, fp8_row(view, begin));
    case KvType::kInt8:
      return run(kernels.mix_u8, int8_row(view, begin));
    case KvType::kInt4:
      return run(kernels.mix_u4, int4_row(view, begin));
  }
}

// The ranges of integers as float32, valid until the next call of this thread.
struct FloatRanges {
  const float* steps;
  const float* smallest;
};
FloatRanges widen_ranges(const KvPages& vectors, std::int64_t begin, std::int64_t end) {
  thread_local std::vector<float> ranges;
  const std::int64_t count = end - begin;
  ranges.resize(static_cast<std::size_t>(2 * count));
  float* steps = ranges.data();
  float* smallest = steps + count;
  for_each_page(vectors, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t to) {
                  vector_kernels().widen_f16(view.steps + from, steps + at - begin, to - from);
                  vector_kernels().widen_f16(view.smallest + from, smallest + at - begin,
                                             to - from);
                });
  return {steps, smallest};
}

// scores[h * count + j - begin] = q_h . k_j for all heads of the group: each key is read once.
void score_row(const AttentionProblem& p, const float* q, std::int64_t begin, std::int64_t end,
               float* scores) {
  const std::int64_t count = end - begin;
  for_each_page(p.keys, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t to) {
                  for (std::int64_t h = 0; h < p.heads; h += kDotRows) {
                    score_codes(view, q + h * p.head_dim, std::min(kDotRows, p.heads - h), from, to,
                                p.head_dim, scores + h * count + at - begin, count);
                  }
                });
  if (!has_range(p.keys.type)) {
    return;
  }
  const FloatRanges ranges = widen_ranges(p.keys, begin, end);
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const float* row = q + h * p.head_dim;
    const float sum = std::accumulate(row, row + p.head_dim, 0.0f);
    float* score = scores + h * count;
    vector_kernels().multiply(score, ranges.steps, 1.0f, score, count);
    vector_kernels().axpy_f32(sum, ranges.smallest, score, count);
  }
}

// out_h = sum over j of weights[h][j] v_j; changes the weights.
void mix_row(const AttentionProblem& p, float* weights, std::int64_t begin, std::int64_t end,
             float* out) {
  const std::int64_t count = end - begin;
  const bool integers = has_range(p.values.type);
  thread_local std::vector<float> offsets;
  if (integers) {
    const FloatRanges ranges = widen_ranges(p.values, begin, end);
    offsets.resize(static_cast<std::size_t>(p.heads));
    for (std::int64_t h = 0; h < p.heads; ++h) {
      float* weight = weights + h * count;
      vector_kernels().dot_f32(weight, count, 1, ranges.smallest, count,
                               &offsets[static_cast<std::size_t>(h)]);
      vector_kernels().multiply(weight, ranges.steps, 1.0f, weight, count);
    }
  }
  std::fill_n(out, p.heads * p.head_dim, 0.0f);
  for_each_page(p.values, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t to) {
                  for (std::int64_t h = 0; h < p.heads; h += kDotRows) {
                    mix_codes(view, weights + h * count + at - begin, count,
                              std::min(kDotRows, p.heads - h), from, to, p.head_dim,
                              out + h * p.head_dim);
                  }
                });
  for (std::int64_t h = 0; integers && h < p.heads; ++h) {
    for (std::int64_t d = 0; d < p.head_dim; ++d) {
      out[h * p.head_dim + d] += offsets[static_cast<std::size_t>(h)];
    }
  }
}

// Codes of integers as they are, other types as the numbers that they mean.
void widen_codes(const KvView& view, std::int64_t from, std::int64_t to, std::int64_t dim,
                 float* out) {
  const std::int64_t count = (to - from) * dim;
  switch (view.type) {
    case KvType::kF32:
      std::copy_n(f32_row(view, from), count, out);
      return;
    case KvType::kF16:
      return vector_kernels().widen_f16(f16_row(view, from), out, count);
    case KvType::kFp8:
      return vector_kernels().widen_e4m3(fp8_row(view, from), out, count);
    case KvType::kInt8:
      return vector_kernels().widen_u8(int8_row(view, from), out, count);
    case KvType::kInt4:
      return vector_kernels().widen_u4(int4_row(view, from), out, count);
  }
}

// Vectors [begin, end) as float32, contiguous or where they lie.
struct FloatRows {
  const float* data;
  std::int64_t stride;
  const float* row(std::int64_t j) const { return data + j * stride; }
};
FloatRows widen(const KvPages& vectors, std::int64_t begin, std::int64_t end, std::int64_t head_dim,
                Scratch& scratch) {
  if (vectors.type == KvType::kF32 && end <= vectors.page_tokens) {
    return {f32_row(vectors.page(0), begin), vectors.stride};
  }
  float* floats = scratch.floats((end - begin) * head_dim);
  for_each_page(vectors, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t to) {
                  widen_codes(view, from, to, head_dim, floats + (at - begin) * head_dim);
                });
  return {floats, head_dim};
}

std::int64_t padded_dim(std::int64_t head_dim) {
  const std::int64_t block = vector_kernels().block;
  return (head_dim + block - 1) / block * block;
}

// Keys and values of a problem as float32, from position `begin` on, and the ranges of integers.
struct FloatVectors {
  std::int64_t begin = 0;
  const float* keys = nullptr;  // as VectorKernels::transpose leaves them
  FloatRows values;
  std::vector<float> key_ranges;    // steps, then smallest; empty for floats
  std::vector<float> value_ranges;  // the same
};

std::vector<float> copy_ranges(const KvPages& vectors, std::int64_t begin, std::int64_t end) {
  if (!has_range(vectors.type)) {
    return {};
  }
  const FloatRanges ranges = widen_ranges(vectors, begin, end);
  return {ranges.steps, ranges.steps + 2 * (end - begin)};
}

FloatVectors widen_vectors(const AttentionProblem& p) {
  thread_local Scratch keys;
  thread_local Scratch transposed_keys;
  thread_local Scratch values;
  const VectorKernels& kernels = vector_kernels();
  const std::int64_t begin = first_key(p, p.first_position);
  const std::int64_t end = key_count(p);
  const FloatRows rows = widen(p.keys, begin, end, p.head_dim, keys);
  const std::int64_t blocks = (end - begin + kernels.block - 1) / kernels.block;
  float* transposed = transposed_keys.floats(blocks * kernels.block * padded_dim(p.head_dim));
  kernels.transpose(rows.data, rows.stride, end - begin, p.head_dim, transposed);
  return {begin, transposed, widen(p.values, begin, end, p.head_dim, values),
          copy_ranges(p.keys, begin, end), copy_ranges(p.values, begin, end)};
}

// Some query rows of a problem: row r is head r % heads at position `position` + r / heads. Each
// step makes for a row what score_row(), the softmax and mix_row() make, in the same order.
class QueryBlock {
 public:
  void attend(const AttentionProblem& p, const FloatVectors& vectors, std::int64_t position,
              std::int64_t positions) {
    take(p, vectors, position, positions);
    for (std::int64_t r = 0; r < rows_; r += kDotRows) {
      score(r, std::min(kDotRows, rows_ - r));
    }
    for (std::int64_t r = 0; r < rows_; ++r) {
      make_weights(r);
    }
    const std::int64_t step = std::max<std::int64_t>(1, kL1Floats / p.head_dim);
    for (std::int64_t j = 0; j < columns_; j += step) {
      for (std::int64_t r = 0; r < rows_; r += kDotRows) {
        mix(r, std::min(kDotRows, rows_ - r), j, std::min(columns_, j + step));
      }
    }
    for (std::int64_t r = 0; r < rows_; ++r) {
      put(r);
    }
  }

 private:
  // Columns that a row sees: [from, to).
  std::int64_t from(std::int64_t row) const {
    return first_key(p_, position_ + row / p_.heads) - begin_;
  }
  std::int64_t to(std::int64_t row) const {
    return end_of_keys(p_, position_ + row / p_.heads) - begin_;
  }

  void take(const AttentionProblem& p, const FloatVectors& vectors, std::int64_t position,
            std::int64_t positions) {
    p_ = p;
    vectors_ = &vectors;
    position_ = position;
    rows_ = positions * p.heads;
    begin_ = first_key(p, position);
    // Blocks of keys are scored as a whole: columns begin with the block of the first.
    begin_ -= (begin_ - vectors.begin) % vector_kernels().block;
    columns_ = end_of_keys(p, position + positions - 1) - begin_;
    padded_ = padded_dim(p.head_dim);
    q_.assign(static_cast<std::size_t>(rows_ * padded_), 0.0f);
    out_.assign(static_cast<std::size_t>(rows_ * p.head_dim), 0.0f);
    offsets_.resize(static_cast<std::size_t>(rows_));
    scores_.resize(static_cast<std::size_t>(rows_ * columns_));
    for (std::int64_t i = 0; i < positions; ++i) {
      for (std::int64_t h = 0; h < p.heads; ++h) {
        std::copy_n(p.q + (position + i - p.first_position) * p.ldq + h * p.head_dim, p.head_dim,
                    q_.data() + (i * p.heads + h) * padded_);
      }
    }
  }

  float* scores(std::int64_t row) { return scores_.data() + row * columns_; }
  const float* q(std::int64_t row) const { return q_.data() + row * padded_; }
  float* out(std::int64_t row) { return out_.data() + row * p_.head_dim; }
  std::int64_t at(std::int64_t column) const { return begin_ + column - vectors_->begin; }

  // All columns that one of the rows sees, and those before them in the first block.
  void score(std::int64_t row, std::int64_t rows) {
    const std::int64_t first = from(row) / vector_kernels().block * vector_kernels().block;
    vector_kernels().score_transposed(q(row), padded_, rows, vectors_->keys + at(first) * padded_,
                                      to(row + rows - 1) - first, padded_, scores(row) + first,
                                      columns_);
  }

  void make_weights(std::int64_t row) {
    const VectorKernels& kernels = vector_kernels();
    const std::int64_t count = to(row) - from(row);
    float* score = scores(row) + from(row);
    if (const std::vector<float>& ranges = vectors_->key_ranges; !ranges.empty()) {
      const float* steps = ranges.data() + at(from(row));
      const float* smallest = steps + ranges.size() / 2;
      kernels.multiply(score, steps, 1.0f, score, count);
      kernels.axpy_f32(std::accumulate(q(row), q(row) + p_.head_dim, 0.0f), smallest, score, count);
    }
    make_shares(p_, score, count);
    if (const std::vector<float>& ranges = vectors_->value_ranges; !ranges.empty()) {
      const float* steps = ranges.data() + at(from(row));
      const float* smallest = steps + ranges.size() / 2;
      kernels.dot_f32(score, count, 1, smallest, count, &offsets_[static_cast<std::size_t>(row)]);
      kernels.multiply(score, steps, 1.0f, score, count);
    }
  }

  // Rows [row, row + rows) += the values of columns [begin, end) that they see. Columns that all of
  // them see pass all rows at once; those at the ends pass their rows alone.
  void mix(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end) {
    const std::int64_t last = row + rows - 1;
    const std::int64_t shared_begin = std::clamp(from(last), begin, end);
    const std::int64_t shared_end = std::clamp(to(row), shared_begin, end);
    for (std::int64_t r = row; r <= last; ++r) {
      mix_rows(r, 1, std::max(begin, from(r)), std::min(shared_begin, to(r)));
    }
    mix_rows(row, rows, shared_begin, shared_end);
    for (std::int64_t r = row; r <= last; ++r) {
      mix_rows(r, 1, shared_end, std::min(end, to(r)));
    }
  }

  void mix_rows(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end) {
    if (begin < end) {
      vector_kernels().mix_f32(scores(row) + begin, columns_, rows, vectors_->values.row(at(begin)),
                               vectors_->values.stride, end - begin, p_.head_dim, out(row),
                               p_.head_dim);
    }
  }

  void put(std::int64_t row) {
    float* to = p_.out + (position_ + row / p_.heads - p_.first_position) * p_.ldo +
                row % p_.heads * p_.head_dim;
    std::copy_n(out(row), p_.head_dim, to);
    for (std::int64_t d = 0; !vectors_->value_ranges.empty() && d < p_.head_dim; ++d) {
      to[d] += offsets_[static_cast<std::size_t>(row)];
    }
  }

  AttentionProblem p_;
  const FloatVectors* vectors_ = nullptr;
  std::int64_t position_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t begin_ = 0;    // the position of column 0
  std::int64_t columns_ = 0;  // positions that some row sees
  std::int64_t padded_ = 0;   // elements of a query row
  std::vector<float> q_;
  std::vector<float> out_;
  std::vector<float> offsets_;
  std::vector<float> scores_;  // [rows, columns]
};

}  // namespace

void attend_rows(const AttentionProblem& p) {
  thread_local std::vector<float> scores;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const std::int64_t begin = first_key(p, p.first_position + i);
    const std::int64_t end = end_of_keys(p, p.first_position + i);
    const std::int64_t count = end - begin;
    scores.resize(static_cast<std::size_t>(p.heads * count));
    score_row(p, p.q + i * p.ldq, begin, end, scores.data());
    float* out = p.out + i * p.ldo;
    for (std::int64_t h = 0; h < p.heads; ++h) {
      make_shares(p, scores.data() + h * count, count);
    }
    mix_row(p, scores.data(), begin, end, out);
  }
}

void attend_blocks(const AttentionProblem& p) {
  thread_local QueryBlock block;
  const FloatVectors vectors = widen_vectors(p);
  const std::int64_t step = std::max<std::int64_t>(1, kQueryRows / p.heads);
  for (std::int64_t i = 0; i < p.rows; i += step) {
    block.attend(p, vectors, p.first_position + i, std::min(step, p.rows - i));
  }
}

void attend_reference(const AttentionProblem& p) {
  const auto element = [](const KvPages& pages, std::int64_t position, std::int64_t d) -> double {
    const KvView view = pages.page(position / pages.page_tokens);
    const std::int64_t j = position % pages.page_tokens;
    const auto in_range = [&](int code) {
      return static_cast<double>(core::to_float(view.smallest[j])) +
             static_cast<double>(core::to_float(view.steps[j])) * code;
    };
    switch (view.type) {
      case KvType::kF32:
        return f32_row(view, j)[d];
      case KvType::kF16:
        return core::to_float(f16_row(view, j)[d]);
      case KvType::kFp8:
        return core::to_float(fp8_row(view, j)[d]);
      case KvType::kInt8:
        return in_range(int8_row(view, j)[d]);
      case KvType::kInt4:
        return in_range(int4_row(view, j)[d / 2] >> (4 * (d % 2)) & 15);
    }
    return 0;
  };
  const std::int64_t keys = key_count(p);
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const std::int64_t position = p.first_position + i;
    std::vector<std::int64_t> seen;
    for (std::int64_t j = 0; j < keys; ++j) {
      if (p.mask.bidirectional ||
          (j <= position && (p.mask.window == 0 || j > position - p.mask.window))) {
        seen.push_back(j);
      }
    }
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const float* q = p.q + i * p.ldq + h * p.head_dim;
      std::vector<double> weights;
      double largest = -std::numeric_limits<double>::infinity();
      for (const std::int64_t j : seen) {
        double sum = 0;
        for (std::int64_t d = 0; d < p.head_dim; ++d) {
          sum += static_cast<double>(q[d]) * element(p.keys, j, d);
        }
        const double score = sum * p.scale;
        const double cap = p.softcap;
        weights.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
        largest = std::max(largest, weights.back());
      }
      double total = 0;
      for (double& weight : weights) {
        weight = std::exp(weight - largest);
        total += weight;
      }
      for (std::int64_t d = 0; d < p.head_dim; ++d) {
        double sum = 0;
        for (std::size_t j = 0; j < weights.size(); ++j) {
          sum += weights[j] / total * element(p.values, seen[j], d);
        }
        p.out[i * p.ldo + h * p.head_dim + d] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace nibble::ops::cpu
