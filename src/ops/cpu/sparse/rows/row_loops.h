#pragma once

#include <cstdint>

#include "ops/cpu/sparse/instruction_sets/vector_loads.h"

/// The loops over streams of rows that the kernels with vectors share; included by one file for
/// each, in an unnamed namespace, behind the vectors of its instruction set.
namespace nibble::ops::cpu {
namespace {

/// How streams lie in memory.
template <int Group, int HeldBits, bool HasBook>
struct RowForm {
  static constexpr int kGroup = Group;
  static constexpr int kHeldBits = HeldBits;
  static constexpr bool kHasBook = HasBook;
  static constexpr int kPiece = sparse_piece_of(Group);
  static constexpr int kQuads = kPiece / kSparseQuad;
  static constexpr int kLines = kQuads * HeldBits / 8;
  static constexpr int kShared = Group / kPiece;  // pieces of a group
  /// Of a window that keeps half of its pieces, about.
  static constexpr int kUsualBytes =
      kSparseWindow / 2 * (kPiece * HeldBits / 8 + (16 + HeldBits) / 8 / kShared);
};

/// f(the RowForm of a weight whose codes are nibbles).
template <class F>
void with_nibble_form(const SparseWeight& w, F f) {
  with_group(w.group, [&](auto group) {
    return w.has_books ? f(RowForm<group(), 4, true>()) : f(RowForm<group(), 4, false>());
  });
}

/// f(the RowForm of any weight).
template <class F>
void with_row_form(const SparseWeight& w, F f) {
  if (w.held_bits == 4) {
    return with_nibble_form(w, f);
  }
  with_group(w.group, [&](auto group) { f(RowForm<group(), 8, false>()); });
}

/// What a window keeps.
template <class Form>
struct Window {
  const std::uint8_t* scales;
  std::uint32_t mask;
  int pieces;  // that are kept

  NIBBLE_INLINE Window(const std::uint8_t* at, std::uint32_t kept)
      : scales(at), mask(kept), pieces(__builtin_popcount(kept)) {}

  NIBBLE_INLINE int groups() const { return pieces / Form::kShared; }
  NIBBLE_INLINE const std::uint8_t* zeros() const { return scales + std::int64_t{2} * groups(); }
  NIBBLE_INLINE const std::uint8_t* codes() const {
    return zeros() + (Form::kHasBook ? 0 : Form::kHeldBits == 8 ? groups() : (groups() + 1) / 2);
  }
  NIBBLE_INLINE std::int64_t line_bytes() const { return std::int64_t{kSparseQuad} * pieces; }
  NIBBLE_INLINE const std::uint8_t* end() const { return codes() + Form::kLines * line_bytes(); }
  /// A byte for each group.
  NIBBLE_INLINE __m128i zero_bytes() const {
    return Form::kHeldBits == 8 ? load_16(zeros()) : nibbles(zeros());
  }
};

/// The stream of a row.
template <class Form>
class RowStream {
 public:
  NIBBLE_INLINE RowStream(const SparseWeight& w, std::int64_t row)
      : begin_(w.bytes + std::int64_t{w.first[row]} * kStreamBorder),
        masks_(begin_ + (Form::kHasBook ? kTableBytes + sizeof(float) : 0)),
        windows_((w.k / Form::kPiece + kSparseWindow - 1) / kSparseWindow),
        at_(masks_ + 2 * windows_) {}

  /// Of the row's book.
  NIBBLE_INLINE const std::uint8_t* table() const { return begin_; }
  NIBBLE_INLINE float unit() const { return load_as<float>(begin_ + kTableBytes); }

  NIBBLE_INLINE std::int64_t windows() const { return windows_; }
  /// Windows one after another.
  NIBBLE_INLINE Window<Form> next() {
    const Window<Form> found(at_, load_as<std::uint16_t>(masks_));
    masks_ += 2;
    at_ = found.end();
    return found;
  }

 private:
  const std::uint8_t* begin_;
  const std::uint8_t* masks_;
  std::int64_t windows_;
  const std::uint8_t* at_;
};

/// One vector of lanes of a window, its weights at their lanes.
template <class Isa, class Form>
struct KeptWeights {
  typename Isa::Kept kept;
  typename Isa::Float scales;
  typename Isa::Int zeros;                // without a book
  typename Isa::Int quads[Form::kQuads];  // codes; of a book entries, as Isa::look_up() gives them

  /// `table`: Isa::table() of the row's book. `skipped`: pieces of the window that stand before the
  /// vector's.
  NIBBLE_INLINE KeptWeights(const Window<Form>& window, typename Isa::Int table, std::uint32_t mask,
                            int skipped)
      : kept(mask) {
    using Int = typename Isa::Int;
    const int groups = skipped / Form::kShared;
    scales = kept.expand(Isa::template repeat<Form::kShared>(
        Isa::half_scales(window.scales + std::int64_t{2} * groups)));
    if constexpr (!Form::kHasBook) {
      zeros = kept.expand(Isa::template repeat<Form::kShared>(Isa::words(
          Isa::kVectors == 1 ? window.zero_bytes() : moved(window.zero_bytes(), groups), 0)));
    }
    const std::uint8_t* const codes = window.codes() + std::int64_t{kSparseQuad} * skipped;
#pragma GCC unroll 4
    for (int line = 0; line < Form::kLines; ++line) {
      const Int all = kept.expand(Isa::load(codes + line * window.line_bytes()));
      if constexpr (Form::kHeldBits == 8) {
        quads[line] = all;
      } else {
        quads[2 * line] = weights_of(table, Isa::field(all, 0, 4));
        quads[2 * line + 1] = weights_of(table, Isa::field(all, 4, 4));
      }
    }
  }

  /// Sums of products without what zeros, or entries that stand higher, have added to them.
  /// `sums_of_codes`: of the activations.
  NIBBLE_INLINE typename Isa::Int without_zeros(typename Isa::Int sums,
                                                typename Isa::Int sums_of_codes) const {
    if constexpr (Form::kHasBook) {
      return Isa::without_entry_zero(sums, sums_of_codes);
    } else {
      return Isa::subtract(sums, zeros, sums_of_codes);
    }
  }

 private:
  static NIBBLE_INLINE typename Isa::Int weights_of(typename Isa::Int table,
                                                    typename Isa::Int codes) {
    if constexpr (Form::kHasBook) {
      return Isa::look_up(table, codes);
    } else {
      return codes;
    }
  }
  /// The bytes from byte `first` on, up to 8.
  static NIBBLE_INLINE __m128i moved(__m128i bytes, int first) {
    const __m128i places = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm_shuffle_epi8(bytes, _mm_add_epi8(places, _mm_set1_epi8(static_cast<char>(first))));
  }
};

/// Words of a token in a window.
template <class Form>
constexpr int kWindowWords = (Form::kQuads + 2) * kSparseWindow;

/// total[i] += a window of a row times token i of M, whose words begin at `x`. `table`: as for
/// KeptWeights.
template <class Isa, class Form, int M>
NIBBLE_INLINE void add_window(const Window<Form>& window, typename Isa::Int table,
                              const std::int32_t* x, typename Isa::Total (&total)[M]) {
  using Int = typename Isa::Int;
  constexpr int kLanes = kSparseWindow / Isa::kVectors;
#pragma GCC unroll 2
  for (int v = 0; v < Isa::kVectors; ++v) {
    const std::uint32_t before = window.mask & ((1u << (v * kLanes)) - 1);
    const KeptWeights<Isa, Form> weights(window, table,
                                         window.mask >> (v * kLanes) & ((1u << kLanes) - 1),
                                         v == 0 ? 0 : __builtin_popcount(before));
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      const std::int32_t* at = x + i * kWindowWords<Form> + v * kLanes;
      Int sums = Isa::broadcast(std::int32_t{0});
#pragma GCC unroll 4
      for (int q = 0; q < Form::kQuads; ++q, at += kSparseWindow) {
        if constexpr (Form::kHasBook) {
          Isa::add_entry_product(sums, weights.quads[q], Isa::load(at));
        } else {
          Isa::template add_product<Form::kHeldBits>(sums, weights.quads[q], Isa::load(at));
        }
      }
      sums = weights.without_zeros(sums, Isa::load(at + kSparseWindow));
      total[i][v] = Isa::fma(Isa::to_float(sums), Isa::mul(weights.scales, weights.kept.load(at)),
                             total[i][v]);
    }
  }
}

/// Rows [begin, end) of M tokens, whose words begin at `x`; y points at column 0 of the first.
template <class Isa, class Form, int M>
NIBBLE_INLINE void run_rows(const SparseWeight& w, const std::int32_t* x, std::int64_t begin,
                            std::int64_t end, float* y, std::int64_t ldy) {
  for (std::int64_t row = begin; row < end; ++row) {
    typename Isa::Total total[M] = {};
    RowStream<Form> stream(w, row);
    const typename Isa::Int table =
        Form::kHasBook ? Isa::table(stream.table()) : typename Isa::Int();
    const std::int32_t* at = x;
    for (std::int64_t left = stream.windows(); left > 0; --left, at += M * kWindowWords<Form>) {
      const Window<Form> window = stream.next();
      prefetch_behind<Form::kUsualBytes>(window.scales);
      add_window<Isa, Form, M>(window, table, at, total);
    }
    for (int i = 0; i < M; ++i) {
      y[i * ldy + row] = Isa::sum(total[i]) * (Form::kHasBook ? stream.unit() : 1.0f);
    }
  }
}

/// All tokens, in the blocks that they stand in.
template <class Isa, class Form, int M = Isa::kTokens>
void run_form(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
              float* y, std::int64_t ldy) {
  if constexpr (M > 1) {
    if (x.windows.tokens < M) {
      return run_form<Isa, Form, M / 2>(w, x, begin, end, y, ldy);
    }
  }
  for_tokens<M>(0, x.m, [&]<int T>(std::int64_t token) {
    run_rows<Isa, Form, T>(w, x.windows.words + token * x.windows.stride, begin, end,
                           y + token * ldy, ldy);
  });
}

template <class Isa>
void run_rows(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
              float* y, std::int64_t ldy) {
  with_row_form(w, [&](auto form) { run_form<Isa, decltype(form)>(w, x, begin, end, y, ldy); });
}

}  // namespace
}  // namespace nibble::ops::cpu
