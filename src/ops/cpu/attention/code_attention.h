#pragma once

#include <cstdint>
#include <vector>

#include "ops/cpu/attention/kv_view.h"

namespace nibble::ops::cpu {

/// Query rows as integers of 16 bits, by which stored codes of keys are multiplied: each element is
/// rounded to a multiple of 1 / kLargestInteger of the row's largest (codes/code_kernels.h; less
/// fine for heads of more than 258 elements, so that sums fit 32 bits). A row with NaN or infinite
/// elements has NaN scores.
class QueryCodes {
 public:
  /// Forgets the rows that it had and makes room for others.
  void start(std::int64_t rows, std::int64_t head_dim);

  /// Row `row`: scores will be `scale` times the products with q.
  void set(std::int64_t row, const float* q, float scale);

  /// scores[r * ld + j - origin] for rows [row, row + rows) and the pages that hold some of
  /// positions [begin, end), all tokens of them; origin is the first position of a page. Rows share
  /// what is read.
  void score(const KvPages& keys, std::int64_t row, std::int64_t rows, std::int64_t begin,
             std::int64_t end, std::int64_t origin, float* scores, std::int64_t ld) const;

 private:
  std::int64_t head_dim_ = 0;
  std::int64_t padded_ = 0;          // integers of a row
  std::vector<float> q_;             // a row filled with zeros
  std::vector<std::int32_t> words_;  // [rows, padded / 2]
  std::vector<float> factors_;       // [rows]
  std::vector<float> sums_;          // the same
};

/// Mixtures of values that are integers, by weights rounded as ValueChunk says.
class CodeMixture {
 public:
  /// `rows` mixtures of nothing.
  void start(std::int64_t rows, std::int64_t head_dim);

  /// Rows [row, row + rows) += what weights[r * ld + j - origin], which are not negative, leave of
  /// positions [begin, end); other weights of the pages that hold these are 0. Positions come in
  /// order, cut at multiples of kChunkTokens: then the numbers do not depend on the cuts.
  void add(const KvPages& values, std::int64_t row, std::int64_t rows, const float* weights,
           std::int64_t ld, std::int64_t begin, std::int64_t end, std::int64_t origin);

  /// out = factor * mixture of a row.
  void put(std::int64_t row, float factor, float* out) const;

 private:
  std::int64_t head_dim_ = 0;
  std::int64_t padded_ = 0;
  std::vector<float> out_;      // [rows, padded]
  std::vector<float> offsets_;  // [rows, 16]
};

}  // namespace nibble::ops::cpu
