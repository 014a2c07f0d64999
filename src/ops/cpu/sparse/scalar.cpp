#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/float16.h"
#include "ops/cpu/sparse/sparse_rows.h"
#include "ops/cpu/sparse/tile_units.h"

namespace nibble::ops::cpu {
namespace {

/// The stream of one row, window by window.
class Stream {
 public:
  Stream(const SparseWeight& w, std::int64_t row)
      : w_(w),
        piece_(sparse_piece_of(w.group)),
        masks_(w.bytes + std::int64_t{w.first[row]} * kStreamBorder),
        windows_((w.k / piece_ + kSparseWindow - 1) / kSparseWindow),
        at_(masks_ + 2 * windows_) {
    enter();
  }

  /// The next piece that is kept; false where there is none.
  bool next() {
    for (++lane_; window_ < windows_; enter()) {
      for (; lane_ < kSparseWindow; ++lane_) {
        if ((mask_ >> lane_ & 1) != 0) {
          ++kept_;
          return true;
        }
      }
      at_ = codes() + std::int64_t{kept_ + 1} * piece_ * w_.held_bits / 8;
      ++window_;
    }
    return false;
  }

  /// Of the present piece.
  std::int64_t piece() const { return window_ * kSparseWindow + lane_; }
  int lane() const { return lane_; }
  float scale() const {
    const int entry = kept_ / shared();
    core::Fp16 scale{};
    std::memcpy(&scale, at_ + std::ptrdiff_t{2} * entry, sizeof(scale));
    return core::to_float(scale);
  }
  int zero() const {
    const int entry = kept_ / shared();
    return w_.held_bits == 8 ? zeros()[entry] : zeros()[entry / 2] >> (entry % 2 * 4) & 15;
  }
  int code(int i) const {
    const int quad = i / kSparseQuad;
    const std::int64_t byte = std::int64_t{kept_} * kSparseQuad + i % kSparseQuad;
    const std::int64_t line = std::int64_t{kSparseQuad} * std::popcount(mask_);
    return w_.held_bits == 8 ? codes()[quad * line + byte]
                             : codes()[quad / 2 * line + byte] >> (quad % 2 * 4) & 15;
  }

 private:
  void enter() {
    lane_ = window_ == 0 && kept_ < 0 ? -1 : 0;
    kept_ = -1;
    if (window_ < windows_) {
      mask_ = masks_[2 * window_] + 256u * masks_[2 * window_ + 1];
    }
  }
  int shared() const { return w_.group / piece_; }
  int groups() const { return std::popcount(mask_) / shared(); }
  const std::uint8_t* zeros() const { return at_ + std::ptrdiff_t{2} * groups(); }
  const std::uint8_t* codes() const {
    return zeros() + (w_.held_bits == 8 ? groups() : (groups() + 1) / 2);
  }

  const SparseWeight& w_;
  int piece_;
  const std::uint8_t* masks_;
  std::int64_t windows_;
  const std::uint8_t* at_;  // of the window
  std::int64_t window_ = 0;
  unsigned mask_ = 0;
  int lane_ = -1;
  int kept_ = -1;  // pieces of the window up to this one, less 1
};

/// One row of weights times one token.
float dot(const SparseWeight& w, std::int64_t row, const SparseInput& x, std::int64_t token) {
  const int width = sparse_piece_of(w.group);
  float sums[kSparseWindow] = {};
  for (Stream stream(w, row); stream.next();) {
    const std::int8_t* const a = x.codes + token * x.code_stride + stream.piece() * width;
    int sum = 0;
    for (int i = 0; i < width; ++i) {
      sum += (stream.code(i) - stream.zero()) * a[i];
    }
    const std::int64_t group = stream.piece() * width / w.group;
    const float scale = stream.scale() * x.scales[token * x.scale_stride + group];
    float& total = sums[stream.lane()];
    total = std::fma(static_cast<float>(sum), scale, total);
  }
  const auto half = [&](int i) { return sums[i] + sums[i + 8]; };
  const auto quarter = [&](int i) { return half(i) + half(i + 4); };
  return (quarter(0) + quarter(2)) + (quarter(1) + quarter(3));
}

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  if (w.rows != 1) {
    return run_tiles_scalar(w, x, begin, end, y, ldy);
  }
  for (std::int64_t token = 0; token < x.m; ++token) {
    for (std::int64_t row = begin; row < end; ++row) {
      y[token * ldy + row] = dot(w, row, x, token);
    }
  }
}

}  // namespace

SparseKernel scalar_sparse_kernel() {
  return {"scalar", "nothing", [] { return true; }, run};
}

}  // namespace nibble::ops::cpu
