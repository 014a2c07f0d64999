#pragma once

#include <cstdint>

/// Included by files that are compiled for one instruction set: it must not bring inline functions
/// with it.
namespace nibble::ops::cpu {

/// Activations of a tile's products: [m] rows of codes, groups padded to `stride` inputs.
struct TrellisInput {
  const std::int8_t* codes = nullptr;
  const float* scales = nullptr;       // [m, groups]
  const std::int32_t* sums = nullptr;  // [m, groups], of the codes of a group
  std::int64_t row_stride = 0;         // bytes from one row of codes to the next
  std::int64_t stride = 0;
  std::int64_t groups = 0;
  std::int64_t group = 0;  // inputs of a group, a multiple of 16
  std::int64_t k = 0;
};

/// The runs of one tile, `runs` of them, as lines of codes + 128 (256 bytes each).
using ExpandRuns = void (*)(const std::uint8_t* codes, int bits, std::int64_t runs,
                            std::uint8_t* lines);
void expand_runs(const std::uint8_t* codes, int bits, std::int64_t runs, std::uint8_t* lines);
void expand_runs_avx512vbmi(const std::uint8_t* codes, int bits, std::int64_t runs,
                            std::uint8_t* lines);

/// y[i * ldy + r] for the 16 rows r of a tile and tokens i < m <= kFewTrellisTokens. Needs
/// AVX512-VBMI and VNNI.
void multiply_tile_avx512vbmi(const std::uint8_t* codes, int bits, const TrellisInput& x,
                              std::int64_t m, const float* row_scales, float* y, std::int64_t ldy);

}  // namespace nibble::ops::cpu
