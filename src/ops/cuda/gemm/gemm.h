#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <cuda_runtime_api.h>

#include "ops/cuda/packed/unit_format.h"
#include "ops/layer_kinds.h"

/// Linear layers over packed weights for many tokens at once: y = x W^T (+ bias).
///
/// Weights lie in units (unit_format.h). They go from shared memory into registers, become INT8 or
/// float16 there, and are the left operand; the tokens are the columns of the product.
namespace nibble::ops::cuda {

struct WireBlock;

/// The weights of a layer.
struct GemmWeights {
  UnitsView units;
  bool row_scale = false;  // all groups of a row have the same scale (and zero)
};

/// INT8 (or kBytes) inputs [tokens, k_padded] in tile order, padding zero. Integers accumulate
/// exactly: k_padded must be below 131072.
struct Int8Inputs {
  const std::int8_t* codes = nullptr;  // device, 16-byte aligned
  int tokens = 0;
  std::int64_t row_bytes = 0;     // from token to token: a multiple of 16
  const float* scales = nullptr;  // [i * token_stride + g * group_stride]: of token i and group g
  int token_stride = 1;
  int group_stride = 0;  // 0: one scale for each token; else one for each 128 inputs too
};

/// float16 inputs [tokens, k_padded] in tile order, padding zero.
struct HalfInputs {
  const void* values = nullptr;  // device, 16-byte aligned
  int tokens = 0;
  std::int64_t row_bytes = 0;  // from token to token: a multiple of 16
};

/// Results rounded to float16, saturated to +-65504: activation(y), [tokens, rows], where y is what
/// would be written as float32; or of rows in pairs (UnitRows::pairs) activation(gate) * up,
/// [tokens, rows / 2].
struct HalfOutput {
  void* values = nullptr;   // device, 4-byte aligned
  std::int64_t stride = 0;  // from token to token, even
  std::optional<MlpActivation> activation = std::nullopt;
  bool pairs = false;
  bool tiles = false;  // in tile order (input_target.h)

  constexpr std::int64_t columns(std::int64_t rows) const { return pairs ? rows / 2 : rows; }
  /// Those of a token and of all after it.
  HalfOutput from(std::int64_t token) const {
    HalfOutput rest = *this;
    rest.values = static_cast<std::uint16_t*>(values) + token * stride;
    return rest;
  }
  /// Rows must be a multiple of this.
  constexpr int row_step() const { return pairs ? (tiles ? 64 : 16) : tiles ? 32 : 1; }
};

/// Results as INT8 codes in tile order (input_target.h), with one scale that stands with the layer
/// that reads them: of what HalfOutput would write, [tokens, rows].
struct CodeOutput {
  std::int8_t* codes = nullptr;  // device, 16-byte aligned
  std::int64_t stride = 0;       // from token to token, a multiple of 16
  std::optional<MlpActivation> activation = std::nullopt;
  float scale = 0.0f;
  int bits = 8;                       // or 4
  float* scales = nullptr;            // [tokens]: each becomes `scale`
  std::int32_t* saturated = nullptr;  // becomes 1 where float16 would end (matrix_view.h), or null

  static constexpr int kRowStep = 32;  // rows must be a multiple of it
};

/// Tokens from `begin` to before `end`.
struct TokenRange {
  int begin = 0;
  int end = 0;

  constexpr bool has(int token) const { return token >= begin && token < end; }
};

/// Results on their way into a sum over two GPUs, rounded as they travel (divided/wire_block.h):
/// blocks of eight rows each, [tokens, rows / 8], to this GPU and to the other one.
struct BlockOutput {
  WireBlock* here = nullptr;           // device
  WireBlock* there = nullptr;          // of the other GPU: two places, for every other sum
  std::int64_t place = 0;              // blocks from one to the other
  const std::uint32_t* sum = nullptr;  // device: the number of the sum
  TokenRange kept = {};                // that go here
  TokenRange sent = {};                // that go there

  static constexpr int kRowStep = 8;  // rows must be a multiple of it
};

/// Where y goes: y[token * stride + row], or as float16, or as codes, or into a sum.
struct GemmOutput {
  float* y = nullptr;
  std::int64_t stride = 0;
  HalfOutput half = {};         // where y is null
  CodeOutput codes = {};        // where that has no values either
  BlockOutput blocks = {};      // and there are no codes
  const float* bias = nullptr;  // [rows], or none
  bool adds = false;            // to what y holds

  constexpr bool in_blocks() const { return blocks.here != nullptr; }
};

/// Throws kFailed where there is no place to write `rows` to, or two, or one that they do not fit,
/// or where they were to be codes, or blocks.
void require_output(const GemmOutput& output, std::int64_t rows);
/// The same of kernels that write codes and blocks too.
void require_any_output(const GemmOutput& output, std::int64_t rows);
/// Also where rows were to be taken in pairs.
void require_unpaired(const GemmOutput& output, std::int64_t rows);

/// How the work is cut. Integers are the same with every plan; products of warpgroups give the same
/// bits whatever the tiles, and so do those of warps, but for float sums where k is divided.
struct GemmPlan {
  bool wgmma = false;    // warpgroup products of sm_90a; else mma.sync
  int row_tile = 128;    // rows of a block of threads: 128; 192; 64, while its inputs stay
  int token_tile = 128;  // its tokens: 32 to 256, as gemm_has_tile() knows
  int cluster = 1;       // blocks of threads that share the tokens they read: 1 or 2
  int blocks = 0;        // blocks of threads that run at once
  // The two blocks of a cluster divide k instead, as gemm_divides_k() knows.
  bool divides_k = false;

  /// Whether inputs stay in shared memory while strips of rows go by (resident/).
  constexpr bool keeps_inputs() const { return wgmma && row_tile == kUnitRows; }
};

/// What a product is fed with.
enum class GemmInputs {
  kInt8,               // a scale for each token
  kInt8ScaledByGroup,  // a scale for each token and 128 inputs
  kHalf,
  kBytes,  // codes of 8 bits that are no integers, as kBytes weights; a scale for each token
};

/// Whether the integer sums of groups are scaled one by one.
constexpr bool scales_by_group(const GemmWeights& weights, GemmInputs inputs) {
  return inputs == GemmInputs::kInt8ScaledByGroup ||
         (inputs == GemmInputs::kInt8 && !weights.row_scale);
}

/// Whether gemm_int8() or gemm_half() take such codes: integers and books.
bool gemm_knows(CodeKind codes);

/// Whether there are warpgroup products for tiles of so many rows and tokens.
bool gemm_has_tile(const GemmWeights& weights, GemmInputs inputs, int row_tile, int token_tile);

/// The most blocks of threads that share the tokens of such tiles.
int gemm_most_in_cluster(const GemmWeights& weights, GemmInputs inputs, int row_tile,
                         int token_tile);

/// Whether two blocks of threads can divide k of such tiles, whose sums run over all of k: of
/// integers, whose results do not depend on it, and of 4-bit weights with float16 inputs.
bool gemm_divides_k(const GemmWeights& weights, GemmInputs inputs, int row_tile, int token_tile);

/// The plans that the current device has.
std::vector<GemmPlan> gemm_plans(const GemmWeights& weights, GemmInputs inputs);

/// The plan for a number of tokens on the current device.
GemmPlan plan_gemm(const GemmWeights& weights, GemmInputs inputs, int tokens);

/// y = x W^T with INT8 inputs. The integer sum of a row, or of each group of 128 k when scales come
/// by group (of weights: not row_scale; of inputs: group_stride != 0), is exact. In float32 then:
///   by row    y = (sum * row scale) * token scale
///   by group  y = sum over groups of (sum * scale of weights) * scale of inputs, by fused
///             multiply-add in the order of k; a token's only scale is applied at the end
/// Entries of books meet inputs scaled by group alone: their factors go into the scales of weights.
/// `tail`, where given, is a segment of 128 more k with 8-bit codes (the last 128 inputs of each
/// row, with the scale of the last group): inputs have 128 (units along k + 1) columns. Throws
/// kFailed for what it can't compute: groups smaller than 128, other books, 8-bit codes with zeros.
void gemm_int8(const GemmPlan& plan, const GemmWeights& weights, const GemmWeights* tail,
               const Int8Inputs& inputs, const GemmOutput& output, cudaStream_t stream);

/// y = x W^T with float16 inputs and float32 sums. A weight is rounded to float16 once: (q - zero)
/// * scale, or entry * scale for books, whose rows are multiplied by their factors at the end.
/// Throws kFailed for scales that are no float16, and for kBytes.
void gemm_half(const GemmPlan& plan, const GemmWeights& weights, const HalfInputs& inputs,
               const GemmOutput& output, cudaStream_t stream);

}  // namespace nibble::ops::cuda
