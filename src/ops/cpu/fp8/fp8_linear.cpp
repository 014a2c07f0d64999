#include "ops/cpu/fp8/fp8_linear.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/float8.h"
#include "formats/nv/e4m3.h"
#include "ops/cpu/vector/scratch.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

constexpr float kTiny = 0x1p-119f;  // 448 / kTiny is still finite
// Float32 values as their bits, which are in the order of the values.
constexpr std::int32_t kMagnitude = 0x7fffffff;       // all but the sign
constexpr std::int32_t kSmallestNormal = 0x3c800000;  // 2^-6
constexpr auto kLargest = std::bit_cast<std::int32_t>(formats::kE4m3Max);
constexpr std::int64_t kPanelRows = 32;      // weight rows of a task
constexpr std::int64_t kRowsPerTask = 8;     // of x
constexpr std::int64_t kRowsTogether = 256;  // x rows that pass a panel whose weights are floats

const core::E4m3* codes_of(const formats::PackedWeight& weight, std::int64_t row) {
  return reinterpret_cast<const core::E4m3*>(weight.codes.data<std::uint8_t>().data()) +
         row * weight.k;
}

/// core::to_float(core::to_e4m3(value)) of any number, without branches, so that compilers use
/// vectors.
float rounded_to_e4m3(float value) {
  constexpr std::int32_t kDropped = 0xfffff;  // bits of a float32 mantissa behind those of E4M3
  constexpr float kAligns = 0x1p14f;          // the last bit of a sum with it is 2^-9
  const auto bits = std::bit_cast<std::int32_t>(value);
  const std::int32_t magnitude = bits & kMagnitude;
  const std::int32_t normal = (magnitude + kDropped / 2 + (magnitude >> 20 & 1)) & ~kDropped;
  const auto subnormal =
      std::bit_cast<std::int32_t>((std::bit_cast<float>(magnitude) + kAligns) - kAligns);
  const std::int32_t is_subnormal = -static_cast<std::int32_t>(magnitude < kSmallestNormal);
  const std::int32_t rounded = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  return std::bit_cast<float>(std::min(rounded, kLargest) | (bits & ~kMagnitude));
}

float round_row(const float* x, std::int64_t k, float* out) {
  std::int32_t most = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    most = std::max(most, std::bit_cast<std::int32_t>(x[i]) & kMagnitude);
  }
  const auto largest = std::bit_cast<float>(most);
  const bool finite = std::isfinite(largest);
  if (!finite || largest < kTiny) {
    std::fill_n(out, k, 0.0f);
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = formats::kE4m3Max / largest;
  for (std::int64_t i = 0; i < k; ++i) {
    out[i] = rounded_to_e4m3(x[i] * inverse);
  }
  return largest / formats::kE4m3Max;
}

/// Sums of one panel of weight rows on their way to y.
struct Panel {
  const formats::PackedWeight& weight;
  std::int64_t begin;
  std::int64_t count;
  std::span<const float> token_scales;
  float* y;
  std::int64_t ldy;
  float scales[kPanelRows];

  void load_scales() {
    for (std::int64_t j = 0; j < count; ++j) {
      formats::unpack_scales(weight, begin + j, {scales + j, 1});
    }
  }

  // sums [rows, kPanelRows], of x rows from `first` on.
  void put(const float* sums, std::int64_t first, std::int64_t rows) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      float* const to = y + (first + i) * ldy + begin;
      for (std::int64_t j = 0; j < count; ++j) {
        const float scaled = sums[i * kPanelRows + j] * scales[j];
        to[j] = token_scales.empty() ? scaled
                                     : scaled * token_scales[static_cast<std::size_t>(first + i)];
      }
    }
  }
};

void few_rows(const Panel& panel, const float* x, std::int64_t m) {
  const std::int64_t k = panel.weight.k;
  float sums[kDotRows * kPanelRows];
  for (std::int64_t i = 0; i < m; i += kDotRows) {
    const std::int64_t rows = std::min(kDotRows, m - i);
    vector_kernels().score_e4m3(x + i * k, k, rows, codes_of(panel.weight, panel.begin), k,
                                panel.count, k, sums, kPanelRows);
    panel.put(sums, i, rows);
  }
}

// Weights become floats once, side by side. x is padded with zeros.
void many_rows(const Panel& panel, const float* x, std::int64_t m, std::int64_t padded) {
  thread_local Scratch wide_scratch;
  thread_local Scratch side_scratch;
  thread_local Scratch sums_scratch;
  const VectorKernels& kernels = vector_kernels();
  const std::int64_t k = panel.weight.k;
  float* const wide = wide_scratch.floats(kPanelRows * k);
  float* const side = side_scratch.floats((kPanelRows + kernels.block) * padded);
  float* const sums = sums_scratch.floats(kRowsTogether * kPanelRows);
  kernels.widen_e4m3(codes_of(panel.weight, panel.begin), wide, panel.count * k);
  kernels.transpose(wide, k, panel.count, k, side);
  for (std::int64_t i = 0; i < m; i += kRowsTogether) {
    const std::int64_t rows = std::min(kRowsTogether, m - i);
    kernels.score_transposed(x + i * padded, padded, rows, side, panel.count, padded, sums,
                             kPanelRows);
    panel.put(sums, i, rows);
  }
}

// x [m, k] with zeros behind each row.
void pad_rows(const float* x, std::int64_t m, std::int64_t k, std::int64_t padded, float* out,
              core::ThreadPool& pool) {
  pool.parallel_for(m, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(x + i * k, k, out + i * padded);
      std::fill_n(out + i * padded + k, padded - k, 0.0f);
    }
  });
}

}  // namespace

void round_to_e4m3(const float* x, std::int64_t m, std::int64_t k, float* out,
                   std::span<float> scales, core::ThreadPool& pool) {
  pool.parallel_for(m, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      scales[static_cast<std::size_t>(i)] = round_row(x + i * k, k, out + i * k);
    }
  });
}

void fp8_linear(const float* x, std::int64_t m, const formats::PackedWeight& weight,
                std::span<const float> token_scales, float* y, std::int64_t ldy,
                core::ThreadPool& pool) {
  thread_local Scratch scratch;  // of the calling thread; the workers read it
  const std::int64_t block = vector_kernels().block;
  const std::int64_t padded = (weight.k + block - 1) / block * block;
  const bool few = m <= kFewFp8Rows;
  float* const padded_x = few ? nullptr : scratch.floats(m * padded);
  if (!few) {
    pad_rows(x, m, weight.k, padded, padded_x, pool);
  }
  const std::int64_t panels = (weight.n + kPanelRows - 1) / kPanelRows;
  pool.parallel_for(panels, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first; at < last; ++at) {
      const std::int64_t begin = at * kPanelRows;
      Panel panel{weight, begin, std::min(kPanelRows, weight.n - begin), token_scales, y, ldy, {}};
      panel.load_scales();
      if (few) {
        few_rows(panel, x, m);
      } else {
        many_rows(panel, padded_x, m, padded);
      }
    }
  });
}

}  // namespace nibble::ops::cpu
