#pragma once

#include <cstdint>

#include "ops/cpu/sparse/instruction_sets/vector_loads.h"
#include "ops/cpu/sparse/tiles/tile_units.h"

/// The loops over units of tiles that the kernels with vectors share; included by one file for
/// each, in an unnamed namespace, behind the vectors of its instruction set.
namespace nibble::ops::cpu {
namespace {

/// The layout of a unit.
template <int Group, int HeldBits, int ScaleBytes>
struct TileForm {
  static constexpr int kGroup = Group;
  static constexpr int kHeldBits = HeldBits;
  static constexpr int kScaleBytes = ScaleBytes;
  static constexpr int kQuads = Group / kSparseQuad;
  static constexpr TileUnitLayout kLayout = tile_unit_layout_of(Group, HeldBits, ScaleBytes);
};

/// A byte for each row.
template <class Form>
NIBBLE_INLINE __m128i zeros_of_rows(const std::uint8_t* unit) {
  const std::uint8_t* const zeros = unit + Form::kLayout.zeros;
  if constexpr (Form::kHeldBits == 8) {
    return load_16(zeros);
  }
  const __m128i low = _mm_cvtsi64_si128(load_as<std::int64_t>(zeros));
  return _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
}

/// sums[v][i] += codes of quad q times those of token i.
template <class Isa, class Form, int M>
NIBBLE_INLINE void add_quad(const typename Isa::Int (&w)[Isa::kVectors], int q,
                            const std::int8_t* codes, std::int64_t stride,
                            typename Isa::Int (&sums)[Isa::kVectors][M]) {
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
    const typename Isa::Int a =
        Isa::broadcast(load_as<std::int32_t>(codes + i * stride + std::int64_t{kSparseQuad} * q));
#pragma GCC unroll 2
    for (int v = 0; v < Isa::kVectors; ++v) {
      Isa::template add_product<Form::kHeldBits>(sums[v][i], w[v], a);
    }
  }
}

/// sums[v][i] = the products of a unit's codes.
template <class Isa, class Form, int M>
NIBBLE_INLINE void multiply_codes(const std::uint8_t* unit, const std::int8_t* codes,
                                  std::int64_t stride,
                                  typename Isa::Int (&sums)[Isa::kVectors][M]) {
  constexpr int kPart = kSparseTileLine / Isa::kVectors;
  typename Isa::Int w[Isa::kVectors];
#pragma GCC unroll 16
  for (int q = 0; q < Form::kQuads; ++q) {
#pragma GCC unroll 2
    for (int v = 0; v < Isa::kVectors; ++v) {
      if constexpr (Form::kHeldBits == 8) {
        w[v] = Isa::load(unit + std::int64_t{kSparseTileLine} * q + std::int64_t{kPart} * v);
      } else {
        const auto line =
            Isa::load(unit + std::int64_t{kSparseTileLine} * (q / 2) + std::int64_t{kPart} * v);
        w[v] = Isa::field(line, q % 2 * 4, 4);
      }
    }
    add_quad<Isa, Form, M>(w, q, codes, stride, sums);
  }
}

/// One tile of M tokens from `token` on.
template <class Isa, class Form, int M>
NIBBLE_INLINE void run_tile(const SparseWeight& w, const SparseInput& x, std::int64_t token,
                            std::int64_t tile, float* y, std::int64_t ldy) {
  using Int = typename Isa::Int;
  using Float = typename Isa::Float;
  constexpr int kLanes = kSparseTile / Isa::kVectors;
  const std::int8_t* const codes = x.codes + token * x.code_stride;
  const float* const scales = x.scales + token * x.scale_stride;
  const std::int32_t* const sums_of_codes = x.sums + token * x.scale_stride;
  Float total[Isa::kVectors][M] = {};
  Float row_units[Isa::kVectors];
  for (int v = 0; v < Isa::kVectors; ++v) {
    row_units[v] =
        Form::kScaleBytes == 1
            ? Isa::load_floats(w.row_units + tile * kSparseTile + std::int64_t{kLanes} * v)
            : Float{};
  }
  const std::int32_t last = w.first[tile + 1];
  for (std::int64_t at = w.first[tile]; at < last; ++at) {
    const std::uint8_t* const unit = w.bytes + at * Form::kLayout.bytes;
    const std::int64_t group = w.groups[at];
    prefetch_behind<Form::kLayout.bytes>(unit);
    Int sums[Isa::kVectors][M] = {};
    multiply_codes<Isa, Form, M>(unit, codes + group * Form::kGroup, x.code_stride, sums);
    const __m128i zeros = zeros_of_rows<Form>(unit);
#pragma GCC unroll 2
    for (int v = 0; v < Isa::kVectors; ++v) {
      const Int zero = Isa::words(zeros, v);
      const std::uint8_t* const own =
          unit + Form::kLayout.scales + std::int64_t{kLanes} * Form::kScaleBytes * v;
      const Float scale = Form::kScaleBytes == 1 ? Isa::mul(Isa::whole_scales(own), row_units[v])
                                                 : Isa::half_scales(own);
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) {
        const std::int64_t place = i * x.scale_stride + group;
        const Int sum = Isa::subtract(sums[v][i], zero, Isa::broadcast(sums_of_codes[place]));
        total[v][i] = Isa::fma(Isa::to_float(sum), Isa::mul(scale, Isa::broadcast(scales[place])),
                               total[v][i]);
      }
    }
  }
  for (int i = 0; i < M; ++i) {
    for (int v = 0; v < Isa::kVectors; ++v) {
      Isa::store(y + (token + i) * ldy + tile * kSparseTile + std::int64_t{kLanes} * v,
                 total[v][i]);
    }
  }
}

template <class Isa, int HeldBits>
void run_held_tiles(const SparseWeight& w, const SparseInput& x, std::int64_t begin,
                    std::int64_t end, float* y, std::int64_t ldy) {
  const auto run = [&]<class Form>(Form) {
    for_tokens<Isa::kTokens>(0, x.m, [&]<int M>(std::int64_t token) {
      for (std::int64_t tile = begin; tile < end; ++tile) {
        run_tile<Isa, Form, M>(w, x, token, tile, y, ldy);
      }
    });
  };
  with_group(w.group, [&](auto group) {
    return w.scale_bytes == 1 ? run(TileForm<group(), HeldBits, 1>())
                              : run(TileForm<group(), HeldBits, 2>());
  });
}

template <class Isa>
void run_tiles(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
               float* y, std::int64_t ldy) {
  return w.held_bits == 4 ? run_held_tiles<Isa, 4>(w, x, begin, end, y, ldy)
                          : run_held_tiles<Isa, 8>(w, x, begin, end, y, ldy);
}

}  // namespace
}  // namespace nibble::ops::cpu
