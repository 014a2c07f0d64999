#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/attention/attention.h"
#include "ops/cpu/attention/code_attention.h"
#include "ops/cpu/attention/codes/code_kernels.h"
#include "ops/cpu/attention/seen_keys.h"
#include "ops/cpu/attention/widened_vectors.h"
#include "ops/cpu/vector/scratch.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kQueryRows = 64;   // heads times positions whose scores exist at a time
constexpr std::int64_t kL1Floats = 8192;  // of values that stay in the L1 cache while rows pass
constexpr std::int64_t kCodeCacheTokens = 64;  // whose codes do

// What q . k is multiplied by before it is a score: integers have it in their products.
float scale_of_products(const AttentionProblem& p) {
  return has_range(p.keys.type) ? 1.0f : p.scale;
}

// Products of one row to numerators of their shares; returns one over the sum of these.
float make_numerators(const AttentionProblem& p, float* scores, std::int64_t count) {
  const VectorKernels& kernels = vector_kernels();
  if (const float scale = scale_of_products(p); scale != 1.0f) {
    kernels.scale(scale, scores, count);
  }
  if (p.softcap > 0.0f) {
    kernels.softcap(p.softcap, scores, count);
  }
  return 1.0f / kernels.softmax_numerators(scores, count);
}

// Position of the first token of the page that holds a position of a cache.
std::int64_t start_of_page(std::int64_t position) {
  return position / kPageTokens * kPageTokens;
}

// Weights of pages that hold [from, to), of which only those are seen.
void clear_unseen(float* weights, std::int64_t from, std::int64_t to) {
  std::fill(weights + start_of_page(from), weights + from, 0.0f);
  std::fill(weights + to, weights + rounded_up(to, kPageTokens), 0.0f);
}

// Asks for `bytes` of the page behind the one of a position, which the processor cannot foresee.
void prefetch_next(const KvPages& vectors, std::int64_t position, std::int64_t end,
                   std::int64_t bytes) {
  const std::int64_t next = position / vectors.page_tokens + 1;
  if (next * vectors.page_tokens < end) {
    const auto* page = static_cast<const std::byte*>(vectors.page(next).data);
    for (std::int64_t at = 0; at < bytes; at += kCodeLine) {
      __builtin_prefetch(page + at);
    }
  }
}

// Of a page of float vectors.
std::int64_t page_bytes(const KvPages& vectors) {
  const std::int64_t element =
      vectors.type == KvType::kF32 ? 4 : (vectors.type == KvType::kF16 ? 2 : 1);
  return kPageTokens * vectors.stride * element;
}

// out[r * ldo + j - begin] = row r . vector j.
void score_floats(const KvView& view, const float* q, std::int64_t rows, std::int64_t begin,
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
    case KvType::kFp8:  // score_side_by_side()
    case KvType::kInt8:
    case KvType::kInt4:  // QueryCodes
      return;
  }
}

// out row r += sum over j of weights[r * ldw + j - begin] * vector j.
void mix_floats(const KvView& view, const float* weights, std::int64_t ldw, std::int64_t rows,
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
    case KvType::kInt4:
      return;  // CodeMixture
  }
}

// Scores of keys in FP8, as score_row().
void score_fp8(const AttentionProblem& p, const float* q, std::int64_t begin, std::int64_t end,
               std::int64_t origin, float* scores, std::int64_t ld) {
  thread_local std::vector<float> filled;
  const std::int64_t padded = rounded_up(p.head_dim, kCodeLanes);
  filled.assign(static_cast<std::size_t>(p.heads * padded), 0.0f);
  for (std::int64_t h = 0; h < p.heads; ++h) {
    std::copy_n(q + h * p.head_dim, p.head_dim, filled.data() + h * padded);
  }
  for_each_page(p.keys, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t) {
                  prefetch_next(p.keys, at, end, padded * kCodeLanes);
                  for (std::int64_t h = 0; h < p.heads; h += kDotRows) {
                    vector_kernels().score_side_by_side(
                        filled.data() + h * padded, padded, std::min(kDotRows, p.heads - h),
                        fp8_codes(view), padded, scores + h * ld + at - from - origin, ld);
                  }
                });
}

// scores[h * ld + j - origin] = q_h . k_j for all heads of the group: each key is read once.
// Integers and FP8 write all tokens of the pages, and origin is the start of one.
void score_row(const AttentionProblem& p, const float* q, std::int64_t begin, std::int64_t end,
               std::int64_t origin, float* scores, std::int64_t ld) {
  if (has_range(p.keys.type)) {
    thread_local QueryCodes queries;
    queries.start(p.heads, p.head_dim);
    for (std::int64_t h = 0; h < p.heads; ++h) {
      queries.set(h, q + h * p.head_dim, p.scale);
    }
    return queries.score(p.keys, 0, p.heads, begin, end, origin, scores, ld);
  }
  if (p.keys.type == KvType::kFp8) {
    return score_fp8(p, q, begin, end, origin, scores, ld);
  }
  for_each_page(p.keys, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t to) {
                  prefetch_next(p.keys, at, end, page_bytes(p.keys));
                  for (std::int64_t h = 0; h < p.heads; h += kDotRows) {
                    score_floats(view, q + h * p.head_dim, std::min(kDotRows, p.heads - h), from,
                                 to, p.head_dim, scores + h * ld + at - origin, ld);
                  }
                });
}

// out_h = sum over j of shares v_j, of numerators[h * ld + j - origin] times inverse[h]; changes
// the numerators.
void mix_row(const AttentionProblem& p, float* numerators, std::int64_t ld, const float* inverse,
             std::int64_t begin, std::int64_t end, std::int64_t origin, float* out) {
  if (has_range(p.values.type)) {
    thread_local CodeMixture mixture;
    mixture.start(p.heads, p.head_dim);
    for (std::int64_t h = 0; h < p.heads; ++h) {
      clear_unseen(numerators + h * ld, begin - origin, end - origin);
    }
    mixture.add(p.values, 0, p.heads, numerators, ld, begin, end, origin);
    for (std::int64_t h = 0; h < p.heads; ++h) {
      mixture.put(h, inverse[h], out + h * p.head_dim);
    }
    return;
  }
  for (std::int64_t h = 0; h < p.heads; ++h) {
    vector_kernels().scale(inverse[h], numerators + h * ld + begin - origin, end - begin);
  }
  std::fill_n(out, p.heads * p.head_dim, 0.0f);
  for_each_page(p.values, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t to) {
                  prefetch_next(p.values, at, end, page_bytes(p.values));
                  for (std::int64_t h = 0; h < p.heads; h += kDotRows) {
                    mix_floats(view, numerators + h * ld + at - origin, ld,
                               std::min(kDotRows, p.heads - h), from, to, p.head_dim,
                               out + h * p.head_dim);
                  }
                });
}

std::int64_t padded_dim(std::int64_t head_dim) {
  const std::int64_t block = vector_kernels().block;
  return (head_dim + block - 1) / block * block;
}

// Keys and values of a problem as float32, from position `begin` on; integers are left where they
// are.
struct FloatVectors {
  std::int64_t begin = 0;       // the start of a page
  const float* keys = nullptr;  // as VectorKernels::transpose leaves them
  FloatRows values = {};
};

// Keys of positions from `begin` on, the start of a page, as VectorKernels::transpose leaves them.
const float* transpose_keys(const AttentionProblem& p, std::int64_t begin) {
  thread_local Scratch keys;
  thread_local Scratch transposed_keys;
  const VectorKernels& kernels = vector_kernels();
  const std::int64_t padded = padded_dim(p.head_dim);
  const std::int64_t end = key_count(p);
  float* transposed = transposed_keys.floats(rounded_up(end - begin, kPageTokens) * padded);
  if (p.keys.type != KvType::kFp8) {
    const FloatRows rows = widen_values(p.keys, begin, end, p.head_dim, keys);
    kernels.transpose(rows.data, rows.stride, end - begin, p.head_dim, transposed);
    return transposed;
  }
  for_each_page(p.keys, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t, std::int64_t) {
                  float* page = transposed + (at - begin) * padded;
                  for (std::int64_t lane = 0; lane < kPageTokens; lane += kernels.block) {
                    for (std::int64_t d = 0; d < padded; ++d) {
                      kernels.widen_e4m3(fp8_codes(view) + fp8_key_place(lane, d),
                                         page + lane * padded + d * kernels.block, kernels.block);
                    }
                  }
                });
  return transposed;
}

FloatVectors widen_vectors(const AttentionProblem& p) {
  thread_local Scratch values;
  FloatVectors vectors;
  vectors.begin = start_of_page(first_key(p, p.first_position));
  if (!has_range(p.keys.type)) {
    vectors.keys = transpose_keys(p, vectors.begin);
  }
  if (!has_range(p.values.type)) {
    vectors.values = widen_values(p.values, vectors.begin, key_count(p), p.head_dim, values);
  }
  return vectors;
}

// Some query rows of a problem: row r is head r % heads at position `position` + r / heads. Each
// step makes for a row what score_row(), the softmax and mix_row() make, in the same order.
class QueryBlock {
 public:
  void attend(const AttentionProblem& p, const FloatVectors& vectors, std::int64_t position,
              std::int64_t positions) {
    take(p, vectors, position, positions);
    if (has_range(p.keys.type)) {
      score_integers();
    } else {
      score_floats();
    }
    for (std::int64_t r = 0; r < rows_; ++r) {
      inverse_[static_cast<std::size_t>(r)] =
          make_numerators(p_, scores(r) + from(r), to(r) - from(r));
    }
    if (has_range(p.values.type)) {
      mix_integers();
    } else {
      mix_floats();
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
    begin_ = start_of_page(first_key(p, position));
    end_ = end_of_keys(p, position + positions - 1);
    columns_ = rounded_up(end_ - begin_, kPageTokens);
    inverse_.resize(static_cast<std::size_t>(rows_));
    scores_.resize(static_cast<std::size_t>(rows_ * columns_));
  }

  float* scores(std::int64_t row) { return scores_.data() + row * columns_; }
  const float* query(std::int64_t row) const {
    return p_.q + (position_ + row / p_.heads - p_.first_position) * p_.ldq +
           row % p_.heads * p_.head_dim;
  }
  float* result(std::int64_t row) const {
    return p_.out + (position_ + row / p_.heads - p_.first_position) * p_.ldo +
           row % p_.heads * p_.head_dim;
  }
  std::int64_t at(std::int64_t column) const { return begin_ + column - vectors_->begin; }

  // All columns that one of the rows sees, and those before them in the first block.
  void score_floats() {
    const std::int64_t padded = padded_dim(p_.head_dim);
    const std::int64_t block = vector_kernels().block;
    q_.assign(static_cast<std::size_t>(rows_ * padded), 0.0f);
    for (std::int64_t r = 0; r < rows_; ++r) {
      std::copy_n(query(r), p_.head_dim, q_.data() + r * padded);
    }
    for (std::int64_t r = 0; r < rows_; r += kDotRows) {
      const std::int64_t rows = std::min(kDotRows, rows_ - r);
      const std::int64_t first = from(r) / block * block;
      vector_kernels().score_transposed(
          q_.data() + r * padded, padded, rows, vectors_->keys + at(first) * padded,
          to(r + rows - 1) - first, padded, scores(r) + first, columns_);
    }
  }

  void score_integers() {
    queries_.start(rows_, p_.head_dim);
    for (std::int64_t r = 0; r < rows_; ++r) {
      queries_.set(r, query(r), p_.scale);
    }
    for_each_tile(kCodeCacheTokens,
                  [&](std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end) {
                    queries_.score(p_.keys, row, rows, begin_ + begin, begin_ + end, begin_,
                                   scores(row), columns_);
                  });
  }

  void mix_integers() {
    mixture_.start(rows_, p_.head_dim);
    for (std::int64_t r = 0; r < rows_; ++r) {
      std::fill(scores(r), scores(r) + from(r), 0.0f);
      std::fill(scores(r) + to(r), scores(r) + columns_, 0.0f);
    }
    for_each_tile(kChunkTokens,
                  [&](std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end) {
                    mixture_.add(p_.values, row, rows, scores(row), columns_, begin_ + begin,
                                 begin_ + end, begin_);
                  });
    for (std::int64_t r = 0; r < rows_; ++r) {
      mixture_.put(r, inverse_[static_cast<std::size_t>(r)], result(r));
    }
  }

  // body(row, rows, begin, end): columns that some of the rows see, cut at positions that are
  // multiples of `tokens`; all rows pass before the next columns.
  template <typename Body>
  void for_each_tile(std::int64_t tokens, Body body) {
    for (std::int64_t begin = 0; begin < end_ - begin_;) {
      const std::int64_t end = std::min((begin_ + begin) / tokens * tokens + tokens, end_) - begin_;
      for (std::int64_t r = 0; r < rows_; r += kCodeRows) {
        const std::int64_t rows = std::min(kCodeRows, rows_ - r);
        const std::int64_t first = std::max(begin, from(r));
        const std::int64_t last = std::min(end, to(r + rows - 1));
        if (first < last) {
          body(r, rows, first, last);
        }
      }
      begin = end;
    }
  }

  void mix_floats() {
    out_.assign(static_cast<std::size_t>(rows_ * p_.head_dim), 0.0f);
    for (std::int64_t r = 0; r < rows_; ++r) {
      vector_kernels().scale(inverse_[static_cast<std::size_t>(r)], scores(r) + from(r),
                             to(r) - from(r));
    }
    const std::int64_t step = std::max<std::int64_t>(1, kL1Floats / p_.head_dim);
    for (std::int64_t j = 0; j < columns_; j += step) {
      for (std::int64_t r = 0; r < rows_; r += kDotRows) {
        mix(r, std::min(kDotRows, rows_ - r), j, std::min(columns_, j + step));
      }
    }
    for (std::int64_t r = 0; r < rows_; ++r) {
      std::copy_n(out_.data() + r * p_.head_dim, p_.head_dim, result(r));
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
                               vectors_->values.stride, end - begin, p_.head_dim,
                               out_.data() + row * p_.head_dim, p_.head_dim);
    }
  }

  AttentionProblem p_;
  const FloatVectors* vectors_ = nullptr;
  std::int64_t position_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t begin_ = 0;    // the position of column 0: the start of a page
  std::int64_t end_ = 0;      // the position after the last that some row sees
  std::int64_t columns_ = 0;  // whole pages
  std::vector<float> q_;
  std::vector<float> out_;
  std::vector<float> inverse_;
  std::vector<float> scores_;  // [rows, columns]
  QueryCodes queries_;
  CodeMixture mixture_;
};

}  // namespace

void attend_rows(const AttentionProblem& p) {
  thread_local std::vector<float> scores;
  thread_local std::vector<float> inverse;
  inverse.resize(static_cast<std::size_t>(p.heads));
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const std::int64_t begin = first_key(p, p.first_position + i);
    const std::int64_t end = end_of_keys(p, p.first_position + i);
    const std::int64_t origin = start_of_page(begin);
    const std::int64_t columns = rounded_up(end - origin, kPageTokens);
    scores.resize(static_cast<std::size_t>(p.heads * columns));
    score_row(p, p.q + i * p.ldq, begin, end, origin, scores.data(), columns);
    for (std::int64_t h = 0; h < p.heads; ++h) {
      inverse[static_cast<std::size_t>(h)] =
          make_numerators(p, scores.data() + h * columns + begin - origin, end - begin);
    }
    mix_row(p, scores.data(), columns, inverse.data(), begin, end, origin, p.out + i * p.ldo);
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

}  // namespace nibble::ops::cpu
