#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/input_target.h"

/// Activations as integers of every kind that formats/activation.h has, or as E2M1 numbers. What
/// the row operators (elementwise.h) write on their way needs no such pass: symmetric integers with
/// a scale for each 128 inputs or for a token.
namespace nibble::ops::cuda {

/// LLM.int8()'s threshold, as cpu::kOutlier.
inline constexpr float kOutlierThreshold = 6.0f;

/// What codes are made of, and where they go, on the device.
struct ActivationCodes {
  InputForm form = InputForm::kInt8Lanes;  // or kByteTiles, kInt4Tiles: the order in a row
  const formats::CodeType* type = &formats::kIntegerCodes;  // or kE2m1Numbers: codes are their
                                                            // doubles, with half of their scale
  int bits = 8;                                             // 3, 4 or 8
  bool symmetric = true;
  float clip = 1.0f;
  float scale = 0.0f;           // of all inputs, where it stands with the layer; 0: taken from them
  bool keeps_outliers = false;  // finite values of at least kOutlierThreshold count as 0
  std::int64_t group = 0;       // inputs that share a scale; 0: all
  std::int64_t scale_step = 0;  // inputs of a stored scale, which divides the group; 0: all
  std::int8_t* codes = nullptr;  // [m, row_bytes]; those of padding to 128 stand for 0. kInt4Tiles
                                 // takes integers of 3 or 4 bits, in groups of 128 n or all
  std::int64_t row_bytes = 0;
  float* scales = nullptr;  // [m, scale_stride]; 0 for steps of padding alone
  std::int64_t scale_stride = 1;
  float* shifts = nullptr;  // [m, steps without padding]: scale * (zero - 128) where codes carry
                            // zeros (8 bits, asymmetric), or null
  std::int32_t* zeros = nullptr;  // like scales, kInt4Tiles asymmetric only: zero - 8 (codes too)
};

/// Inputs [columns] of m rows of x, ldx apart, to codes: those of cpu::quantize_input, bit for bit.
void activation_codes(const float* x, std::int64_t ldx, std::int64_t m, std::int64_t columns,
                      const ActivationCodes& target, cudaStream_t stream);

}  // namespace nibble::ops::cuda
