#pragma once

#include <cstdint>

#include <cuda_runtime.h>

/// Activations of few tokens as the right operand of mma_s8.
namespace nibble::ops::cuda {

/// Codes of m tokens in lane order (small_batch.h), in global or shared memory.
struct InputCodes {
  const std::int8_t* codes;
  const float* scales;
  int m;
  int blocks;       // of 128 inputs
  int scales_each;  // of a token: 1, one for each block, or eight
};

/// Those of one unit for one warp: lane 4 g + t holds column g. kDigits columns are a token;
/// kColumns counts columns in eights. kFine: a scale for each 16 inputs.
template <int kDigits, int kColumns, bool kFine = false>
struct UnitInputs {
  static constexpr int kTokens = kDigits == 2 ? 1 : 2;  // of a lane in eight columns
  uint4 codes[kColumns][2];
  float scales[kColumns][kTokens];  // unless they are fine: those are read where they are used
  const float* fine_scales;         // of the unit, from token to token:
  int fine_stride;
  int last_token;

  __device__ void load(const InputCodes& x, int block, int lane) {
    const int columns = x.m * kDigits;
    const std::size_t stride = static_cast<std::size_t>(x.blocks) * 128;
    if constexpr (kFine) {
      fine_scales = x.scales + block * 8;
      fine_stride = x.blocks * 8;
      last_token = x.m - 1;
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const int column = n * 8 + lane / 4;
      const auto* source =
          reinterpret_cast<const uint4*>(x.codes + column * stride + block * 128 + lane % 4 * 32);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        codes[n][i] = column < columns ? source[i] : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kTokens; ++i) {
        const int token = token_of(n, lane, i);
        if constexpr (!kFine) {
          scales[n][i] =
              token < x.m ? x.scales[x.scales_each == 1 ? token : token * x.blocks + block] : 0.0f;
        }
      }
    }
  }
  /// Of a group of the unit.
  __device__ float scale(int n, int i, int group, int lane) const {
    if constexpr (kFine) {
      return fine_scales[min(token_of(n, lane, i), last_token) * fine_stride + group];
    } else {
      return scales[n][i];
    }
  }
  /// For inputs 32 h + 8 t + 4 e + 0..3.
  __device__ std::uint32_t word(int n, int h, int e) const {
    const uint4& v = codes[n][h / 2];
    return h % 2 == 0 ? (e == 0 ? v.x : v.y) : (e == 0 ? v.z : v.w);
  }
  /// The lane's i-th token among the results of eight columns.
  __device__ static int token_of(int n, int lane, int i) {
    return (n * 8 + lane % 4 * 2) / kDigits + i;
  }
};

}  // namespace nibble::ops::cuda
