#include <cmath>
#include <cstring>

#include "core/float16.h"
#include "formats/bit_packing.h"
#include "ops/cpu/sparse/sparse_rows.h"

namespace nibble::ops::cpu {
namespace {

std::int64_t group_at(const SparseWeight& w, std::int64_t at) {
  const std::uint8_t* bytes = w.groups + at * w.index_bytes;
  return w.index_bytes == 1 ? bytes[0] : bytes[0] | bytes[1] << 8;
}

/// One row of weights times one token.
float dot(const SparseWeight& w, std::int64_t row, const SparseInput& x, std::int64_t token) {
  float sums[2][kSparseLanes] = {};
  std::int64_t quad = 0;  // of the row
  const std::int64_t code_bytes = w.group * w.bits / 8;
  for (std::int64_t at = w.row_index[row]; at < w.row_index[row + 1]; ++at) {
    const std::uint8_t* block = x.blocks + token * x.token_bytes + group_at(w, at) * x.block_bytes;
    float scale = 0;
    std::memcpy(&scale, block + w.group, sizeof(scale));
    scale = core::to_float(core::Fp16{w.scales[at]}) * scale;
    const int zero =
        w.zeros == nullptr ? 1 << (w.bits - 1) : formats::get_code(w.zeros, w.bits, at);
    for (std::int64_t i = 0; i < w.group; i += kSparseQuad, ++quad) {
      int sum = 0;
      for (std::int64_t j = i; j < i + kSparseQuad; ++j) {
        const int code = formats::get_code(w.codes + at * code_bytes, w.bits, j);
        sum += (code - zero) * static_cast<std::int8_t>(block[j]);
      }
      float& total = sums[quad / kSparseLanes % 2][quad % kSparseLanes];
      total = std::fma(static_cast<float>(sum), scale, total);
    }
  }
  float halves[kSparseLanes / 2];
  for (int i = 0; i < kSparseLanes / 2; ++i) {
    halves[i] = (sums[0][i] + sums[1][i]) + (sums[0][i + 4] + sums[1][i + 4]);
  }
  return (halves[0] + halves[2]) + (halves[1] + halves[3]);
}

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  for (std::int64_t token = 0; token < x.m; ++token) {
    for (std::int64_t row = begin; row < end; ++row) {
      y[token * ldy + row] = dot(w, row, x, token);
    }
  }
}

}  // namespace

SparseKernel scalar_sparse_kernel() {
  return {"scalar", "nothing", [] { return true; }, [](int, std::int64_t) { return true; }, run};
}

}  // namespace nibble::ops::cpu
