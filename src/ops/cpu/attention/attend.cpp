#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <cblas.h>

#include "ops/cpu/attention/attention.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kQueryBlock = 64;

std::int64_t first_key(const AttentionProblem& p, std::int64_t position) {
  return p.window > 0 ? std::max<std::int64_t>(0, position - p.window + 1) : 0;
}

const float* f32_row(const KvView& view, std::int64_t j) {
  return static_cast<const float*>(view.data) + j * view.stride;
}
const core::Fp16* f16_row(const KvView& view, std::int64_t j) {
  return static_cast<const core::Fp16*>(view.data) + j * view.stride;
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
    case KvType::kInt8:
      return run(kernels.score_u8, int8_row(view, begin));
    case KvType::kInt4:
      return run(kernels.score_u4, int4_row(view, begin));
  }
}

// out row r = sum over j of weights[r * ldw + j - begin] * vector j, codes as they are.
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
FloatRanges widen_ranges(const KvView& view, std::int64_t begin, std::int64_t count) {
  thread_local std::vector<float> ranges;
  ranges.resize(static_cast<std::size_t>(2 * count));
  vector_kernels().widen_f16(view.steps + begin, ranges.data(), count);
  vector_kernels().widen_f16(view.smallest + begin, ranges.data() + count, count);
  return {ranges.data(), ranges.data() + count};
}

// scores[h * count + j - begin] = q_h . k_j for all heads of the group: each key is read once.
void score_row(const AttentionProblem& p, const float* q, std::int64_t begin, std::int64_t end,
               float* scores) {
  const std::int64_t count = end - begin;
  for (std::int64_t h = 0; h < p.heads; h += kDotRows) {
    score_codes(p.keys, q + h * p.head_dim, std::min(kDotRows, p.heads - h), begin, end, p.head_dim,
                scores + h * count, count);
  }
  if (p.keys.steps == nullptr) {
    return;
  }
  const FloatRanges ranges = widen_ranges(p.keys, begin, count);
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
  const bool integers = p.values.steps != nullptr;
  thread_local std::vector<float> offsets;
  if (integers) {
    const FloatRanges ranges = widen_ranges(p.values, begin, count);
    offsets.resize(static_cast<std::size_t>(p.heads));
    for (std::int64_t h = 0; h < p.heads; ++h) {
      float* weight = weights + h * count;
      vector_kernels().dot_f32(weight, count, 1, ranges.smallest, count,
                               &offsets[static_cast<std::size_t>(h)]);
      vector_kernels().multiply(weight, ranges.steps, 1.0f, weight, count);
    }
  }
  for (std::int64_t h = 0; h < p.heads; h += kDotRows) {
    mix_codes(p.values, weights + h * count, count, std::min(kDotRows, p.heads - h), begin, end,
              p.head_dim, out + h * p.head_dim);
  }
  for (std::int64_t h = 0; integers && h < p.heads; ++h) {
    for (std::int64_t d = 0; d < p.head_dim; ++d) {
      out[h * p.head_dim + d] += offsets[static_cast<std::size_t>(h)];
    }
  }
}

// One vector as float32.
void widen_row(const KvView& view, std::int64_t j, float* out, std::int64_t head_dim) {
  if (view.type == KvType::kF16) {
    return vector_kernels().widen_f16(f16_row(view, j), out, head_dim);
  }
  const float step = core::to_float(view.steps[j]);
  mix_codes(view, &step, 1, 1, j, j + 1, head_dim, out);
  const float smallest = core::to_float(view.smallest[j]);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    out[d] += smallest;
  }
}

// Rows [begin, end) as float32 [end - begin, head_dim], contiguous or with the view's own stride.
struct FloatRows {
  const float* data;
  std::int64_t stride;
};
FloatRows widen(const KvView& view, std::int64_t begin, std::int64_t end, std::int64_t head_dim,
                std::vector<float>& scratch) {
  if (view.type == KvType::kF32) {
    return {f32_row(view, begin), view.stride};
  }
  scratch.resize(static_cast<std::size_t>((end - begin) * head_dim));
  for (std::int64_t j = begin; j < end; ++j) {
    widen_row(view, j, scratch.data() + (j - begin) * head_dim, head_dim);
  }
  return {scratch.data(), head_dim};
}

}  // namespace

void attend_rows(const AttentionProblem& p) {
  const VectorKernels& kernels = vector_kernels();
  const float scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim));
  thread_local std::vector<float> scores;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const std::int64_t end = p.first_position + i + 1;
    const std::int64_t begin = first_key(p, end - 1);
    const std::int64_t count = end - begin;
    scores.resize(static_cast<std::size_t>(p.heads * count));
    score_row(p, p.q + i * p.ldq, begin, end, scores.data());
    float* out = p.out + i * p.ldo;
    for (std::int64_t h = 0; h < p.heads; ++h) {
      float* row = scores.data() + h * count;
      kernels.scale(scale, row, count);
      const float sum = kernels.softmax_numerators(row, count);
      kernels.scale(1.0f / sum, row, count);
    }
    mix_row(p, scores.data(), begin, end, out);
  }
}

void attend_blocks(const AttentionProblem& p) {
  const VectorKernels& kernels = vector_kernels();
  const float scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim));
  const auto dim = static_cast<int>(p.head_dim);
  thread_local std::vector<float> scores;
  thread_local std::vector<float> key_scratch;
  thread_local std::vector<float> value_scratch;
  const std::int64_t oldest = first_key(p, p.first_position);
  const std::int64_t newest = p.first_position + p.rows;
  const FloatRows keys = widen(p.keys, oldest, newest, p.head_dim, key_scratch);
  const FloatRows values = widen(p.values, oldest, newest, p.head_dim, value_scratch);
  for (std::int64_t block = 0; block < p.rows; block += kQueryBlock) {
    const std::int64_t rows = std::min(kQueryBlock, p.rows - block);
    const std::int64_t end = p.first_position + block + rows;
    const std::int64_t begin = first_key(p, p.first_position + block);
    const std::int64_t count = end - begin;
    scores.resize(static_cast<std::size_t>(rows * count));
    for (std::int64_t h = 0; h < p.heads; ++h) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows),
                  static_cast<int>(count), dim, scale, p.q + block * p.ldq + h * p.head_dim,
                  static_cast<int>(p.ldq), keys.data + (begin - oldest) * keys.stride,
                  static_cast<int>(keys.stride), 0.0f, scores.data(), static_cast<int>(count));
      for (std::int64_t i = 0; i < rows; ++i) {
        float* row = scores.data() + i * count;
        const std::int64_t position = p.first_position + block + i;
        const std::int64_t from = first_key(p, position) - begin;
        const std::int64_t to = position + 1 - begin;
        std::fill(row, row + from, 0.0f);
        std::fill(row + to, row + count, 0.0f);
        const float sum = kernels.softmax_numerators(row + from, to - from);
        kernels.scale(1.0f / sum, row + from, to - from);
      }
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows), dim,
                  static_cast<int>(count), 1.0f, scores.data(), static_cast<int>(count),
                  values.data + (begin - oldest) * values.stride, static_cast<int>(values.stride),
                  0.0f, p.out + block * p.ldo + h * p.head_dim, static_cast<int>(p.ldo));
    }
  }
}

void attend_reference(const AttentionProblem& p) {
  const auto element = [](const KvView& view, std::int64_t j, std::int64_t d) -> double {
    const auto in_range = [&](int code) {
      return static_cast<double>(core::to_float(view.smallest[j])) +
             static_cast<double>(core::to_float(view.steps[j])) * code;
    };
    switch (view.type) {
      case KvType::kF32:
        return f32_row(view, j)[d];
      case KvType::kF16:
        return core::to_float(f16_row(view, j)[d]);
      case KvType::kInt8:
        return in_range(int8_row(view, j)[d]);
      case KvType::kInt4:
        return in_range(int4_row(view, j)[d / 2] >> (4 * (d % 2)) & 15);
    }
    return 0;
  };
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const std::int64_t position = p.first_position + i;
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const float* q = p.q + i * p.ldq + h * p.head_dim;
      std::vector<double> weights;
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = first_key(p, position); j <= position; ++j) {
        double sum = 0;
        for (std::int64_t d = 0; d < p.head_dim; ++d) {
          sum += static_cast<double>(q[d]) * element(p.keys, j, d);
        }
        weights.push_back(sum / std::sqrt(static_cast<double>(p.head_dim)));
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
          sum += weights[j] / total *
                 element(p.values, first_key(p, position) + static_cast<std::int64_t>(j), d);
        }
        p.out[i * p.ldo + h * p.head_dim + d] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace nibble::ops::cpu
