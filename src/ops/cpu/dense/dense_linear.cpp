#include "ops/cpu/dense/dense_linear.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/sparse/floats/grouped_rows.h"
#include "ops/cpu/vector/scratch.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

using core::DType;

constexpr std::int64_t kPanelRows = 96;      // output rows of a task
constexpr std::int64_t kBlockRows = 64;      // x rows that pass a panel
constexpr std::int64_t kRowsTogether = 512;  // x rows that exist in the order of tiles at a time

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
  if (!formats::is_dense(weight.scheme)) {
    float* rows = copy();
    if (has_grouped_rows(weight.scheme)) {
      const GroupedRows grouped = grouped_rows(weight);
      for (std::int64_t j = begin; j < end; ++j) {
        kernels.widen_groups(grouped, j, rows + (j - begin) * k);
      }
      return rows;
    }
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
  const bool dense = formats::is_dense(weight.scheme);
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

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// x rows in the order of the tiles of products.
void pack_rows(const float* x, std::int64_t m, std::int64_t ldx, std::int64_t k, float* packed,
               core::ThreadPool& pool) {
  const VectorKernels& kernels = vector_kernels();
  const std::int64_t padded = round_up(k, kernels.block);
  pool.parallel_for(round_up(m, kDotRows) / kDotRows, 4,
                    [&](std::int64_t first, std::int64_t last) {
                      const std::int64_t row = first * kDotRows;
                      kernels.pack_rows(x + row * ldx, ldx, std::min(m, last * kDotRows) - row, k,
                                        packed + row * padded);
                    });
}

// Packed rows times weight rows [begin, end).
void multiply_panel(const float* packed_x, std::int64_t m, const formats::PackedWeight& weight,
                    std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) {
  thread_local std::vector<float> scratch;
  thread_local Scratch packed_scratch;
  thread_local Scratch product_scratch;
  const VectorKernels& kernels = vector_kernels();
  const std::int64_t k = weight.k;
  float* packed = packed_scratch.floats(round_up(end - begin, kernels.dot_columns) *
                                        round_up(k, kernels.block));
  kernels.pack_columns(float_rows(weight, begin, end, scratch), k, end - begin, k, packed);
  // Results first come together: rows of y lie far apart.
  float* products = product_scratch.floats(kBlockRows * kPanelRows);
  for (std::int64_t i = 0; i < m; i += kBlockRows) {
    const std::int64_t rows = std::min(kBlockRows, m - i);
    kernels.dot_products(packed_x + i * round_up(k, kernels.block), rows, packed, end - begin, k,
                         products, kPanelRows);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(products + r * kPanelRows, end - begin, y + (i + r) * ldy + begin);
    }
  }
}

}  // namespace

void dense_linear(const float* x, std::int64_t m, std::int64_t ldx,
                  const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                  core::ThreadPool& pool) {
  const std::int64_t panels = (weight.n + kPanelRows - 1) / kPanelRows;
  const auto for_each_panel = [&](auto work) {
    pool.parallel_for(panels, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t panel = first; panel < last; ++panel) {
        const std::int64_t begin = panel * kPanelRows;
        work(begin, std::min(weight.n, begin + kPanelRows));
      }
    });
  };
  if (m <= kFewDenseRows) {
    return for_each_panel([&](std::int64_t begin, std::int64_t end) {
      few_rows(x, m, ldx, weight, begin, end, y, ldy);
    });
  }
  thread_local Scratch scratch;  // of the calling thread; the workers read it
  float* const packed = scratch.floats(round_up(std::min(m, kRowsTogether), kDotRows) *
                                       round_up(weight.k, vector_kernels().block));
  for (std::int64_t row = 0; row < m; row += kRowsTogether) {
    const std::int64_t rows = std::min(kRowsTogether, m - row);
    pack_rows(x + row * ldx, rows, ldx, weight.k, packed, pool);
    for_each_panel([&](std::int64_t begin, std::int64_t end) {
      multiply_panel(packed, rows, weight, begin, end, y + row * ldy, ldy);
    });
  }
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
