#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/medium_batch/decoders.cuh"
#include "ops/cuda/packed/plane_words.cuh"

/// Decoders of codes of 3 and 2 bits in planes: those of 4 bits, from words that are made on the
/// way.
namespace nibble::ops::cuda {

/// The words of 4-bit units with the same weights.
template <CodeKind kCodes>
struct NibbleWords {
  static constexpr int kBits = bits_of(kCodes);
  PlaneWords<kBits> planes;

  __device__ static NibbleWords load_shared(std::uint32_t tile, int lane) {
    return {PlaneWords<kBits>::load_shared(tile, lane)};
  }
  __device__ std::uint32_t at(int i) const {
    constexpr std::uint32_t kTurned = 0x80808080u;  // rows g + 8
    constexpr std::uint32_t kShift = 8 - (1 << (kBits - 1));
    const std::uint32_t nibbles = planes.nibbles(i / 2, i % 2);
    if constexpr (is_book(kCodes)) {
      return nibbles;
    } else if constexpr (has_zero_points(kCodes)) {
      return nibbles ^ kTurned;
    } else {
      return (nibbles + kShift * 0x11111111u) ^ kTurned;
    }
  }
};

/// `Decoder` of 4-bit codes, from planes.
template <class Decoder, CodeKind kCodes>
struct FromPlanes : Decoder {
  static constexpr int kCodeBytes = 256 * bits_of(kCodes);
  static constexpr int kTileBytes = Decoder::kTileBytes - Decoder::kCodeBytes + kCodeBytes;
  using Words = NibbleWords<kCodes>;
};

}  // namespace nibble::ops::cuda
