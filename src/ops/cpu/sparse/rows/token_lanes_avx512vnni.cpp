#include <cstddef>
#include <optional>
#include <span>

#include "ops/cpu/sparse/instruction_sets/vectors512.h"
#include "ops/cpu/sparse/rows/row_loops.h"
#include "ops/cpu/sparse/rows/token_lanes.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::ptrdiff_t kQuadBytes = std::ptrdiff_t{kSparseQuad} * kSparseLanes;

// Activations of so many windows of inputs stay in the L1 cache while some rows pass, and weights
// that were widened serve some blocks of tokens.
constexpr int kBlockWindows = 4;
constexpr int kRowsTogether = 8;
constexpr int kBlocksTogether = 4;
constexpr int kTokensTogether = kBlocksTogether * kSparseLanes;

// Results of so many rows are written at once: those of a token fill a cache line then.
constexpr int kRowsWritten = 16;
using Sums = float[kRowsTogether][kSparseWindow][kSparseLanes];  // of a block of tokens
using Results = float[kRowsWritten][kTokensTogether];
constexpr int kMostPieces = (kBlockWindows + 1) * kSparseWindow;  // one more may be written

/// Pieces of nibbles that a row keeps, as weights with a sign, one behind the other. Less their
/// zero, codes of 8 bits would not fit 8 bits.
template <class Form>
class WidePieces {  // NOLINT(cppcoreguidelines-pro-type-member-init): read() writes what is read
 public:
  /// Those of windows [begin, end), where the stream is.
  NIBBLE_INLINE void read(RowStream<Form>& stream, std::int64_t begin, std::int64_t end) {
    count_ = 0;
    const __m512i table =
        Form::kHasBook ? _mm512_broadcast_i32x4(load_16(stream.table())) : _mm512_setzero_si512();
    for (std::int64_t number = begin; number < end; ++number) {
      add(stream.next(), table, number);
    }
  }

  /// sums[block][row][lane] += the products of each piece with B blocks of tokens.
  template <int B>
  NIBBLE_INLINE void multiply(const SparseLanes* x, int row, Sums* sums) const {
    for (int i = 0; i < count_; ++i) {
      const std::int64_t piece = pieces_[i];
      const std::int64_t code = piece * Form::kQuads * kQuadBytes;
      __m512i quads[Form::kQuads];
#pragma GCC unroll 4
      for (int q = 0; q < Form::kQuads; ++q) {
        quads[q] = _mm512_set1_epi32(quads_[q][i]);
      }
      const __m512 own_scale = _mm512_set1_ps(scales_[i]);
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) {
        __m512i sum = _mm512_set1_epi32(starts_[i]);
#pragma GCC unroll 4
        for (int q = 0; q < Form::kQuads; ++q) {
          sum = _mm512_dpbusd_epi32(sum, _mm512_load_si512(x[b].codes + code + q * kQuadBytes),
                                    quads[q]);
        }
        const __m512 scale = _mm512_mul_ps(
            own_scale, _mm512_load_ps(x[b].scales + piece / Form::kShared * kSparseLanes));
        float* const total = sums[b][row][piece % kSparseWindow];
        _mm512_store_ps(total,
                        _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, _mm512_load_ps(total)));
      }
    }
  }

 private:
  /// The zero of each piece, four times.
  static NIBBLE_INLINE __m512i zeros_of(const Window<Form>& window) {
    const __m512i each_four_times = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    return _mm512_shuffle_epi8(
        Vectors512::repeat<Form::kShared>(_mm512_cvtepu8_epi32(window.zero_bytes())),
        each_four_times);
  }

  /// `table`: the entries of the row's book, with their sign.
  NIBBLE_INLINE void add(const Window<Form>& window, __m512i table, std::int64_t number) {
    static_assert(Form::kHeldBits == 4);
    const __m512i zeros = Form::kHasBook ? _mm512_setzero_si512() : zeros_of(window);
    const auto weights_of = [&](__m512i codes) {
      return Form::kHasBook ? Vectors512::look_up(table, codes) : _mm512_sub_epi8(codes, zeros);
    };
    __m512i sums = _mm512_setzero_si512();
#pragma GCC unroll 2
    for (int line = 0; line < Form::kLines; ++line) {
      const __m512i both = Vectors512::load(window.codes() + line * window.line_bytes());
      const __m512i low = weights_of(Vectors512::field(both, 0, 4));
      const __m512i high = weights_of(Vectors512::field(both, 4, 4));
      _mm512_storeu_si512(quads_[2 * line] + count_, low);
      _mm512_storeu_si512(quads_[2 * line + 1] + count_, high);
      sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), low);
      sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), high);
    }
    _mm512_storeu_si512(starts_ + count_,
                        _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sums, 7)));
    _mm512_storeu_ps(scales_ + count_,
                     Vectors512::repeat<Form::kShared>(Vectors512::half_scales(window.scales)));
    const __m512i lanes =
        _mm512_add_epi32(_mm512_set1_epi32(static_cast<std::int32_t>(number * kSparseWindow)),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    _mm512_storeu_si512(pieces_ + count_,
                        _mm512_maskz_compress_epi32(static_cast<__mmask16>(window.mask), lanes));
    count_ += window.pieces;
  }

  int count_ = 0;
  std::int32_t quads_[Form::kQuads][kMostPieces];  // weights, four bytes each
  std::int32_t starts_[kMostPieces];               // -128 * the sum of the weights
  float scales_[kMostPieces];
  std::int32_t pieces_[kMostPieces];  // which of the row's
};

/// What one row gives for 16 tokens, of the sums of each lane of row_streams.h.
NIBBLE_INLINE __m512 sum_of(const float (&sums)[kSparseWindow][kSparseLanes], float unit) {
  const auto half = [&](int i) {
    return _mm512_add_ps(_mm512_load_ps(sums[i]), _mm512_load_ps(sums[i + 8]));
  };
  const auto quarter = [&](int i) { return _mm512_add_ps(half(i), half(i + 4)); };
  const __m512 sum =
      _mm512_add_ps(_mm512_add_ps(quarter(0), quarter(2)), _mm512_add_ps(quarter(1), quarter(3)));
  return _mm512_mul_ps(sum, _mm512_set1_ps(unit));
}

/// Some rows of weights.
struct Rows {
  std::int64_t first;
  std::int64_t count;  // up to kRowsTogether
};

/// y[i]: row `first` + i times up to kBlocksTogether blocks of tokens.
template <class Form>
void run_some_rows(const SparseWeight& w, std::span<const SparseLanes> x, const Rows& rows,
                   float (*y)[kTokensTogether]) {
  alignas(64) Sums sums[kBlocksTogether];
  WidePieces<Form> wide[kRowsTogether];
  std::optional<RowStream<Form>> streams[kRowsTogether];
  __builtin_memset(sums, 0, sizeof(sums[0]) * x.size());
  for (std::int64_t i = 0; i < rows.count; ++i) {
    streams[i].emplace(w, rows.first + i);
  }
  const std::int64_t windows = streams[0]->windows();
  for (std::int64_t begin = 0; begin < windows; begin += kBlockWindows) {
    const std::int64_t end = begin + kBlockWindows < windows ? begin + kBlockWindows : windows;
    for (std::int64_t i = 0; i < rows.count; ++i) {
      wide[i].read(*streams[i], begin, end);
    }
    std::size_t block = 0;
    for (; block + 2 <= x.size(); block += 2) {
      for (int i = 0; i < rows.count; ++i) {
        wide[i].template multiply<2>(&x[block], i, sums + block);
      }
    }
    for (int i = 0; block < x.size() && i < rows.count; ++i) {
      wide[i].template multiply<1>(&x[block], i, sums + block);
    }
  }
  for (std::size_t block = 0; block < x.size(); ++block) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const float unit = Form::kHasBook ? streams[i]->unit() : 1.0f;
      _mm512_store_ps(y[i] + block * kSparseLanes, sum_of(sums[block][i], unit));
    }
  }
}

template <class Form>
void run_rows_of(const SparseWeight& w, std::span<const SparseLanes> x, std::int64_t begin,
                 std::int64_t end, float* y, std::int64_t ldy) {
  alignas(64) Results results;
  const auto least = [](std::int64_t a, std::int64_t b) { return a < b ? a : b; };
  while (!x.empty()) {
    const std::span<const SparseLanes> blocks =
        x.first(x.size() < kBlocksTogether ? x.size() : kBlocksTogether);
    const std::int64_t tokens =
        static_cast<std::int64_t>(blocks.size() - 1) * kSparseLanes + blocks.back().tokens;
    for (std::int64_t row = begin; row < end; row += kRowsWritten) {
      const std::int64_t count = least(end - row, kRowsWritten);
      for (std::int64_t i = 0; i < count; i += kRowsTogether) {
        run_some_rows<Form>(w, blocks, {row + i, least(count - i, kRowsTogether)}, results + i);
      }
      for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t i = 0; i < count; ++i) {
          y[token * ldy + row + i] = results[i][token];
        }
      }
    }
    x = x.subspan(blocks.size());
    y += kTokensTogether * ldy;
  }
}

}  // namespace

void run_token_lanes_avx512vnni(const SparseWeight& w, std::span<const SparseLanes> x,
                                std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) {
  with_nibble_form(w, [&](auto form) { run_rows_of<decltype(form)>(w, x, begin, end, y, ldy); });
}

}  // namespace nibble::ops::cpu
