#include "ops/cpu/dense/dense_linear.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <cblas.h>

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

using core::DType;

constexpr std::int64_t kPanelRows = 96;  // output rows that one BLAS call computes

// Weight rows [begin, end) as float32 [end - begin, k]: a view where they are stored so, else a
// copy in `scratch`.
const float* float_rows(const formats::PackedWeight& weight, std::int64_t begin, std::int64_t end,
                        std::vector<float>& scratch) {
  const VectorKernels& kernels = vector_kernels();
  const std::int64_t k = weight.k;
  const auto copy = [&] {
    scratch.resize(static_cast<std::size_t>((end - begin) * k));
    return scratch.data();
  };
  if (weight.scheme.kind != formats::FormatKind::kDense) {
    float* rows = copy();
    for (std::int64_t j = begin; j < end; ++j) {
      formats::decode_row(weight, j, {rows + (j - begin) * k, static_cast<std::size_t>(k)});
    }
    return rows;
  }
  switch (weight.dense.dtype()) {
    case DType::kF16:
      kernels.widen_f16(weight.dense.data<core::Fp16>().data() + begin * k, copy(),
                        (end - begin) * k);
      return scratch.data();
    case DType::kBF16:
      kernels.widen_bf16(weight.dense.data<core::Bf16>().data() + begin * k, copy(),
                         (end - begin) * k);
      return scratch.data();
    default:
      return weight.dense.data<float>().data() + begin * k;
  }
}

// Dot products of all x rows with weight rows [begin, end), kDotRows x rows at a time.
template <typename T, typename Dot>
void dot_panel(const float* x, std::int64_t m, std::int64_t ldx, const T* w, std::int64_t k,
               Dot dot, std::int64_t n, float* y, std::int64_t ldy) {
  float out[kDotRows];
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; i += kDotRows) {
      const std::int64_t rows = std::min(kDotRows, m - i);
      dot(x + i * ldx, ldx, rows, w + j * k, k, out);
      for (std::int64_t r = 0; r < rows; ++r) {
        y[(i + r) * ldy + j] = out[r];
      }
    }
  }
}

void few_rows(const float* x, std::int64_t m, std::int64_t ldx, const formats::PackedWeight& weight,
              std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) {
  const VectorKernels& kernels = vector_kernels();
  const std::int64_t k = weight.k;
  const bool dense = weight.scheme.kind == formats::FormatKind::kDense;
  if (dense && weight.dense.dtype() == DType::kF16) {
    const auto* w = weight.dense.data<core::Fp16>().data() + begin * k;
    return dot_panel(x, m, ldx, w, k, kernels.dot_f16, end - begin, y + begin, ldy);
  }
  if (dense && weight.dense.dtype() == DType::kBF16) {
    const auto* w = weight.dense.data<core::Bf16>().data() + begin * k;
    return dot_panel(x, m, ldx, w, k, kernels.dot_bf16, end - begin, y + begin, ldy);
  }
  thread_local std::vector<float> scratch;
  const float* w = float_rows(weight, begin, end, scratch);
  dot_panel(x, m, ldx, w, k, kernels.dot_f32, end - begin, y + begin, ldy);
}

void many_rows(const float* x, std::int64_t m, std::int64_t ldx,
               const formats::PackedWeight& weight, std::int64_t begin, std::int64_t end, float* y,
               std::int64_t ldy) {
  thread_local std::vector<float> scratch;
  const float* w = float_rows(weight, begin, end, scratch);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m),
              static_cast<int>(end - begin), static_cast<int>(weight.k), 1.0f, x,
              static_cast<int>(ldx), w, static_cast<int>(weight.k), 0.0f, y + begin,
              static_cast<int>(ldy));
}

}  // namespace

void dense_linear(const float* x, std::int64_t m, std::int64_t ldx,
                  const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                  core::ThreadPool& pool) {
  const std::int64_t panels = (weight.n + kPanelRows - 1) / kPanelRows;
  pool.parallel_for(panels, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t panel = first; panel < last; ++panel) {
      const std::int64_t begin = panel * kPanelRows;
      const std::int64_t end = std::min(weight.n, begin + kPanelRows);
      (m <= kFewRows ? few_rows : many_rows)(x, m, ldx, weight, begin, end, y, ldy);
    }
  });
}

void dense_linear_reference(const float* x, std::int64_t m, std::int64_t ldx,
                            const formats::PackedWeight& weight, double* y, std::int64_t ldy) {
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t j = 0; j < weight.n; ++j) {
    formats::decode_row(weight, j, row);
    for (std::int64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (std::int64_t at = 0; at < weight.k; ++at) {
        sum += static_cast<double>(x[i * ldx + at]) *
               static_cast<double>(row[static_cast<std::size_t>(at)]);
      }
      y[i * ldy + j] = sum;
    }
  }
}

}  // namespace nibble::ops::cpu
