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
  constexpr std::int64_t kQuads = kSparsePiece / kSparseQuad;  // of a piece
  float sums[2][4 * kQuads] = {};
  std::int64_t quad = 0;  // of the row
  const std::int64_t code_bytes = w.group * w.bits / 8;
  for (std::int64_t at = w.row_index[row]; at < w.row_index[row + 1]; ++at) {
    const std::uint8_t* blocks = x.blocks + token * x.token_bytes + group_at(w, at) * x.group_bytes;
    float scale = 0;
    std::memcpy(&scale, blocks + kSparsePiece, sizeof(scale));
    scale = core::to_float(core::Fp16{w.scales[at]}) * scale;
    const int zero =
        w.zeros == nullptr ? 1 << (w.bits - 1) : formats::get_code(w.zeros, w.bits, at);
    for (std::int64_t i = 0; i < w.group; i += kSparseQuad, ++quad) {
      const std::uint8_t* a = blocks + i / kSparsePiece * kSparseBlock + i % kSparsePiece;
      int sum = 0;
      for (std::int64_t j = 0; j < kSparseQuad; ++j) {
        const int code = formats::get_code(w.codes + at * code_bytes, w.bits, i + j);
        sum += (code - zero) * static_cast<std::int8_t>(a[j]);
      }
      const std::int64_t piece = quad / kQuads;
      float& total = sums[piece % 2][piece / 2 % 4 * kQuads + quad % kQuads];
      total = std::fma(static_cast<float>(sum), scale, total);
    }
  }
  const auto both = [&](std::int64_t i) { return sums[0][i] + sums[1][i]; };
  float rest[kQuads];
  for (std::int64_t i = 0; i < kQuads; ++i) {
    rest[i] = (both(i) + both(i + 2 * kQuads)) + (both(i + kQuads) + both(i + 3 * kQuads));
  }
  return (rest[0] + rest[2]) + (rest[1] + rest[3]);
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
