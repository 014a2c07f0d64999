#pragma once

#include <cstdint>
#include <span>

#include "core/float16.h"
#include "core/float8.h"
#include "ops/token_weight.h"

/// Loops over one vector of floats, compiled once for each instruction set and chosen at run time.
/// Every function makes its additions in one fixed order for a given instruction set, so results do
/// not depend on threads or on what else is in a batch.
namespace nibble::ops::cpu {

inline constexpr std::int64_t kDotRows =
    4;  // activation rows that share one pass over a weight row

/// The registers of an instruction set, and how many of them its loops take.
struct VectorShape {
  const char* isa;
  std::int64_t width;        // floats in a register
  std::int64_t mixed;        // registers of each of kDotRows mixtures at a time
  std::int64_t dot_columns;  // vectors of a tile of dot_products()
  std::int64_t score_rows;   // rows of a tile of score_transposed()
};

/// Rows of float16 of which only groups are stored (formats/block_sparse.h). In any order within a
/// row; fastest where groups of even and odd registers alternate.
struct GroupedRows {
  const std::int32_t* row_index = nullptr;  // [n + 1]
  const std::uint8_t* groups = nullptr;     // [kept, index_bytes], little-endian, below k / group
  const core::Fp16* values = nullptr;       // [kept, group]
  std::int64_t group = 0;                   // 8, 16, 32 or 64; divides k
  std::int64_t k = 0;
  int index_bytes = 1;
};

struct VectorKernels {
  const char* isa;

  /// out[i] = sum over k of x[i * ldx + k] * w[k] for i < rows <= kDotRows.
  void (*dot_f32)(const float* x, std::int64_t ldx, std::int64_t rows, const float* w,
                  std::int64_t k, float* out);
  void (*dot_f16)(const float* x, std::int64_t ldx, std::int64_t rows, const core::Fp16* w,
                  std::int64_t k, float* out);
  void (*dot_bf16)(const float* x, std::int64_t ldx, std::int64_t rows, const core::Bf16* w,
                   std::int64_t k, float* out);

  /// y[i * ldy + j] = x row i . w row j for i < m and rows j in [begin, end), the very numbers of
  /// dot_f16 for the rows with their zeros, where x is finite. Groups of each parity of registers
  /// ascend within a row.
  void (*multiply_groups)(const float* x, std::int64_t ldx, std::int64_t m, const GroupedRows& w,
                          std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy);
  /// out[k] = row `row` with its zeros.
  void (*widen_groups)(const GroupedRows& w, std::int64_t row, float* out);

  /// out[i * ldo + j] = x row i . w row j for i < rows and j < count, the very numbers of dot_f32,
  /// by tiles of kDotRows rows of x and dot_columns rows of w that share what they load. Both are
  /// brought into the order of the tiles first: that takes padded(rows) * padded(k) floats, rows
  /// rounded up to whole tiles and k to a multiple of `block`.
  std::int64_t dot_columns;
  void (*pack_rows)(const float* x, std::int64_t ldx, std::int64_t rows, std::int64_t k,
                    float* out);
  void (*pack_columns)(const float* w, std::int64_t ldw, std::int64_t count, std::int64_t k,
                       float* out);
  void (*dot_products)(const float* packed_x, std::int64_t rows, const float* packed_w,
                       std::int64_t count, std::int64_t k, float* out, std::int64_t ldo);

  /// Vectors side by side, `block` at a time: out[(j / block * padded + d) * block + j % block] =
  /// element d of vector j. `padded` is n rounded up to whole blocks; what is not there is 0.
  std::int64_t block;
  void (*transpose)(const float* vectors, std::int64_t stride, std::int64_t count, std::int64_t n,
                    float* out);

  /// out[i * ldo + j] = x row i . vector j for i < rows and j < count, the very numbers of
  /// score_f32, from vectors as transpose() leaves them. Rows of x are filled with zeros to
  /// `padded` elements.
  void (*score_transposed)(const float* x, std::int64_t ldx, std::int64_t rows,
                           const float* transposed, std::int64_t count, std::int64_t padded,
                           float* out, std::int64_t ldo);

  /// out[i * ldo + j] = x row i . vector j, for i < rows <= kDotRows and j < count: all products of
  /// some rows with `count` vectors of n elements, `stride` elements apart.
  template <typename T>
  using Score = void (*)(const float* x, std::int64_t ldx, std::int64_t rows, const T* vectors,
                         std::int64_t stride, std::int64_t count, std::int64_t n, float* out,
                         std::int64_t ldo);
  Score<float> score_f32;
  Score<core::Fp16> score_f16;
  Score<core::E4m3> score_e4m3;

  /// out[i * ldo + j] = x row i . vector j for i < rows <= kDotRows and 16 vectors that stand side
  /// by side, codes[d * 16 + j] being element d of vector j: the very numbers of score_f32. Rows of
  /// x and vectors are filled with zeros to `padded` elements, a multiple of 16.
  void (*score_side_by_side)(const float* x, std::int64_t ldx, std::int64_t rows,
                             const core::E4m3* codes, std::int64_t padded, float* out,
                             std::int64_t ldo);

  /// out row i += sum over j < count of weights[i * ldw + j] * vector j, for i < rows <= kDotRows.
  /// Each element is one chain of multiply-adds in the order of j, begun from what stands in `out`,
  /// so that vectors given piece by piece make the same numbers as all of them at once.
  template <typename T>
  using Mix = void (*)(const float* weights, std::int64_t ldw, std::int64_t rows, const T* vectors,
                       std::int64_t stride, std::int64_t count, std::int64_t n, float* out,
                       std::int64_t ldo);
  Mix<float> mix_f32;
  Mix<core::Fp16> mix_f16;
  Mix<core::E4m3> mix_e4m3;

  void (*add)(float* y, const float* x, std::int64_t n);                     // y += x
  void (*axpy_f32)(float a, const float* x, float* y, std::int64_t n);       // y += a x
  void (*axpy_f16)(float a, const core::Fp16* x, float* y, std::int64_t n);  // y += a x
  void (*scale)(float a, float* x, std::int64_t n);                          // x *= a
  void (*widen_f16)(const core::Fp16* x, float* y, std::int64_t n);          // y = x
  void (*widen_bf16)(const core::Bf16* x, float* y, std::int64_t n);         // y = x
  void (*widen_e4m3)(const core::E4m3* x, float* y, std::int64_t n);         // y = x
  void (*narrow_f16)(const float* x, core::Fp16* y, std::int64_t n);         // y = x, nearest even
  float (*sum_squares)(const float* x, std::int64_t n);                      // sum of x^2
  void (*multiply)(const float* x, const float* w, float a, float* y, std::int64_t n);  // y = a x w

  /// x = exp(x - max(x)) in place; returns the sum. Entries of -infinity become 0.
  float (*softmax_numerators)(float* x, std::int64_t n);

  /// largest[i] = the largest of x[i run] to x[(i + 1) run - 1], as far as n reaches; whether some
  /// x is NaN, which leaves `largest` without meaning.
  bool (*largest_of_runs)(const float* x, std::int64_t n, std::int64_t run, float* largest);

  /// The same bits as weigh_tokens() (ops/row_draw.h).
  void (*token_weights)(const float* logits, std::int64_t n, float first, float temperature,
                        TokenWeight* weights);

  /// x = cap tanh(x / cap) in place, cap > 0: within 1e-6 cap.
  void (*softcap)(float cap, float* x, std::int64_t n);

  void (*silu_multiply)(const float* gate, const float* up, float* y,
                        std::int64_t n);  // y = silu(gate) up
  void (*silu)(const float* x, float* y, std::int64_t n);
  void (*gelu_tanh)(const float* x, float* y, std::int64_t n);
  /// y = x Phi(x), Phi the normal distribution: within 1.5e-7 max(1, |x|). 0 of -infinity.
  void (*gelu)(const float* x, float* y, std::int64_t n);

  /// Of LayerNorm: the sum of x, the sum of (x - mean)^2, and y = (x - mean) inverse w + b, b may
  /// be null.
  float (*sum)(const float* x, std::int64_t n);
  float (*sum_squares_about)(const float* x, float mean, std::int64_t n);
  void (*normalize)(const float* x, float mean, float inverse, const float* w, const float* b,
                    float* y, std::int64_t n);
};

/// The best kernels that this CPU can run.
const VectorKernels& vector_kernels();

/// All kernels that run here, slowest first.
std::span<const VectorKernels* const> runnable_vector_kernels();

const VectorKernels& vector_kernels_baseline();
const VectorKernels& vector_kernels_avx2();        // x86-64
const VectorKernels& vector_kernels_avx512();      // x86-64
const VectorKernels& vector_kernels_avx512vbmi();  // x86-64
const VectorKernels& vector_kernels_neon();        // 64-bit ARM

}  // namespace nibble::ops::cpu
