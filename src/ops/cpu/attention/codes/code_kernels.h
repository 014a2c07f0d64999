#pragma once

#include <cstdint>
#include <span>

#include "core/float16.h"
#include "ops/cpu/attention/kv_layout.h"

/// Dot products of 16-bit integers with the stored codes of keys and values (kv_layout.h), compiled
/// once for each instruction set and chosen at run time. Sums are exact, and what is done with them
/// is done element by element, so all instruction sets give the same bits. No inline functions
/// here: see packed/variants.h.
namespace nibble::ops::cpu {

/// Rows (a head of a position) that share what is read of keys and values.
inline constexpr std::int64_t kCodeRows = 4;

/// Pages whose weights are rounded together.
inline constexpr std::int64_t kChunkPages = 4;
inline constexpr std::int64_t kChunkTokens = kCodeLanes * kChunkPages;

/// The largest integer that a weight is rounded to; kLargestInteger * 255 * kChunkTokens < 2^31. An
/// integer w is 256 * high + low with two signed bytes, so 127.5 * 256 would be too much.
inline constexpr int kLargestInteger = 127 * 256 + 127;

/// Some query rows and a page of keys:
///   out[r * ldo + t] = factors[r] * (step_t * (w_r . code_t) + sums[r] * smallest_t)
/// for all 16 tokens t. 4-bit codes have an even number of quads.
struct KeyPage {
  const std::uint8_t* codes;  // lines of the page
  const std::uint8_t* next;   // those of the page that comes after it
  const core::Fp16* steps;    // [16]
  const core::Fp16* smallest;
  std::int64_t quads;         // of a key
  const std::int32_t* words;  // of row r from r * word_stride on: two for each quad
  std::int64_t word_stride;
  std::int64_t rows;     // <= kCodeRows
  const float* factors;  // [rows]
  const float* sums;     // [rows]: of the integers
  float* out;
  std::int64_t ldo;
};

/// Some rows of weights, which are not negative, and up to kChunkPages pages of values:
///   out[r * ldo + d] += sum over tokens of weight_rt step_t code_td
///   offsets[r * 16 + t % 16] += weight_rt smallest_t
/// Products weight * step are rounded to multiples of 1 / kLargestInteger of the row's largest.
/// Tokens of weight 0 are not read, whatever their range.
struct ValueChunk {
  const std::uint8_t* codes[kChunkPages];
  const core::Fp16* steps[kChunkPages];
  const core::Fp16* smallest[kChunkPages];
  std::int64_t pages;
  std::int64_t lanes;    // elements of a value, whole lines of 16
  const float* weights;  // of row r from r * ldw on, [pages, 16]
  std::int64_t ldw;
  std::int64_t rows;  // <= kCodeRows
  float* out;
  std::int64_t ldo;
  float* offsets;
};

struct CodeKernels {
  const char* isa;
  bool (*runs_here)();

  /// Codes round((x[i] - from) / step), step = (largest - from) / levels, both as float16; a vector
  /// with NaN or infinite elements gets codes 0 and `from` NaN, so that what reads it is NaN.
  void (*encode)(const float* x, std::int64_t n, int levels, std::uint8_t* codes, core::Fp16* step,
                 core::Fp16* from);

  /// Integers round(x[i] * factor), at most kLargestInteger, as the words of KeyPage; n is a
  /// multiple of 16. Returns their sum.
  std::int64_t (*pack)(const float* x, std::int64_t n, float factor, std::int32_t* words);

  void (*score8)(const KeyPage&);
  void (*score4)(const KeyPage&);
  void (*mix8)(const ValueChunk&);
  void (*mix4)(const ValueChunk&);
};

/// The best kernels that this CPU can run.
const CodeKernels& code_kernels();

/// All kernels of this build, slowest first.
std::span<const CodeKernels* const> all_code_kernels();

const CodeKernels& code_kernels_plain();
const CodeKernels& code_kernels_avx2();        // x86-64
const CodeKernels& code_kernels_avxvnni();     // x86-64
const CodeKernels& code_kernels_avx512vnni();  // x86-64
const CodeKernels& code_kernels_neon();        // 64-bit ARM

}  // namespace nibble::ops::cpu
