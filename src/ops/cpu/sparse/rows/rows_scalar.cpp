#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/float16.h"
#include "ops/cpu/sparse/rows/row_streams.h"

namespace nibble::ops::cpu {
namespace {

/// What a window of a row keeps. `kept`: which of its kept pieces.
class Window {
 public:
  /// `table`: of the row's book; null without one.
  Window(const SparseWeight& w, const std::uint8_t* table, unsigned mask, const std::uint8_t* at)
      : w_(w), table_(table), pieces_(std::popcount(mask)), at_(at) {}

  float scale(int kept) const {
    core::Fp16 scale{};
    std::memcpy(&scale, at_ + std::ptrdiff_t{2} * (kept / shared()), sizeof(scale));
    return core::to_float(scale);
  }
  int weight(int kept, int i) const {
    return table_ != nullptr ? static_cast<std::int8_t>(table_[code(kept, i)])
                             : code(kept, i) - zero(kept);
  }
  const std::uint8_t* end() const {
    return codes() + std::int64_t{pieces_} * sparse_piece_of(w_.group) * w_.held_bits / 8;
  }

 private:
  int zero(int kept) const {
    const int entry = kept / shared();
    return w_.held_bits == 8 ? zeros()[entry] : zeros()[entry / 2] >> (entry % 2 * 4) & 15;
  }
  int code(int kept, int i) const {
    const int quad = i / kSparseQuad;
    const std::int64_t byte = std::int64_t{kept} * kSparseQuad + i % kSparseQuad;
    const std::int64_t line = std::int64_t{kSparseQuad} * pieces_;
    return w_.held_bits == 8 ? codes()[quad * line + byte]
                             : codes()[quad / 2 * line + byte] >> (quad % 2 * 4) & 15;
  }
  int shared() const { return w_.group / sparse_piece_of(w_.group); }
  int groups() const { return pieces_ / shared(); }
  const std::uint8_t* zeros() const { return at_ + std::ptrdiff_t{2} * groups(); }
  const std::uint8_t* codes() const {
    return zeros() + (w_.has_books ? 0 : w_.held_bits == 8 ? groups() : (groups() + 1) / 2);
  }

  const SparseWeight& w_;
  const std::uint8_t* table_;
  int pieces_;
  const std::uint8_t* at_;
};

/// One row of weights times one token.
float dot(const SparseWeight& w, std::int64_t row, const SparseInput& x, std::int64_t token) {
  const int width = sparse_piece_of(w.group);
  const std::int64_t windows = (w.k / width + kSparseWindow - 1) / kSparseWindow;
  const std::uint8_t* const stream = w.bytes + std::int64_t{w.first[row]} * kStreamBorder;
  const std::uint8_t* const table = w.has_books ? stream : nullptr;
  float unit = 1;
  if (w.has_books) {
    std::memcpy(&unit, stream + kTableBytes, sizeof(unit));
  }
  const std::uint8_t* const masks = stream + (w.has_books ? kTableBytes + sizeof(unit) : 0);
  const std::uint8_t* at = masks + 2 * windows;
  float sums[kSparseWindow] = {};
  for (std::int64_t number = 0; number < windows; ++number) {
    const unsigned mask = masks[2 * number] + 256u * masks[2 * number + 1];
    const Window window(w, table, mask, at);
    int kept = 0;
    for (int lane = 0; lane < kSparseWindow; ++lane) {
      if ((mask >> lane & 1) == 0) {
        continue;
      }
      const std::int64_t input = (number * kSparseWindow + lane) * width;
      const std::int8_t* const a = x.codes + token * x.code_stride + input;
      int sum = 0;
      for (int i = 0; i < width; ++i) {
        sum += window.weight(kept, i) * a[i];
      }
      const float scale = window.scale(kept) * x.scales[token * x.scale_stride + input / w.group];
      sums[lane] = std::fma(static_cast<float>(sum), scale, sums[lane]);
      ++kept;
    }
    at = window.end();
  }
  const auto half = [&](int i) { return sums[i] + sums[i + 8]; };
  const auto quarter = [&](int i) { return half(i) + half(i + 4); };
  return ((quarter(0) + quarter(2)) + (quarter(1) + quarter(3))) * unit;
}

}  // namespace

void run_rows_scalar(const SparseWeight& w, const SparseInput& x, std::int64_t begin,
                     std::int64_t end, float* y, std::int64_t ldy) {
  for (std::int64_t token = 0; token < x.m; ++token) {
    for (std::int64_t row = begin; row < end; ++row) {
      y[token * ldy + row] = dot(w, row, x, token);
    }
  }
}

}  // namespace nibble::ops::cpu
