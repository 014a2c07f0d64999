#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/attention/attention_plan.h"
#include "ops/cuda/attention/kv_layout.h"
#include "ops/cuda/elementwise/input_target.h"

/// Attention over paged keys and values (ops.h), in two steps: append() makes queries ready and
/// stores keys and values, attend_...() computes
///   scores(i, j) = q_i . k_j / sqrt(head_dim)   for positions j in (p_i - window, p_i]
///   out_i = softmax(scores(i, .)) V
/// Query head h reads KV head h / (heads / kv_heads). Nothing waits or allocates. All pointers are
/// of the device. The bits of a sequence's rows depend on the other sequences by decodes_by_warps()
/// alone.
namespace nibble::ops::cuda {

inline constexpr std::int64_t kMaxHeadDim = 512;

/// The Hadamard matrix by which 4-bit keys or values are multiplied (formats/hadamard.h) as (B (x)
/// S) / sqrt(size), B with signs [base, base].
struct HadamardView {
  const float* signs = nullptr;  // null for base 1
  std::int32_t base = 1;
};

/// What a layer's attention is made of, on the device.
struct AttentionLayer {
  KvLayout layout;
  std::int64_t heads = 0;
  const float* inverse_frequency = nullptr;  // RoPE, [rotary / 2]
  std::int64_t rotary = 0;                   // elements of a head that RoPE turns; 0: none
  float rope_factor = 1.0f;
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;
  float norm_eps = 1e-6f;
  const float* key_centre = nullptr;  // AttentionSpec::key_centre, [kv_heads * head_dim] or null
  bool turned = false;  // there is a Hadamard matrix of head_dim: 4-bit keys and values are turned
  HadamardView turn;
};

/// Queries as attend() reads them, [m, heads * head_dim]: float16 where the layout is in fragments,
/// else float32.
struct Queries {
  core::Fp16* halves = nullptr;
  float* floats = nullptr;
};

/// qkv [m, (heads + 2 kv_heads) head_dim] float32: RMSNorm of each query and key head, RoPE, the
/// key centre, then the rounding of cpu::KvPool::store, code for code, into the layer's pages
/// (KvPool::layer). Rows with slot -1 are not kept. It reads the plan while kernels before it may
/// still run: what wrote it must have ended, as it has where a step begins with StepUpload. Throws
/// kUsage for heads of more than kMaxHeadDim elements.
void append(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan, std::int64_t m,
            const Queries& queries, std::byte* pages, cudaStream_t stream);

/// Floats that attend_decode() needs for results of splits (AttentionPlan::partials).
constexpr std::int64_t partial_floats(std::int64_t partials, std::int64_t heads,
                                      std::int64_t head_dim) {
  return partials * heads * (head_dim + 2);
}

/// What is made of the results [m, heads * head_dim]: float32 rows, or what input() (elementwise.h)
/// makes of them, bit for bit, in a form that attention_writes().
struct AttentionOutput {
  float* rows = nullptr;  // where it is not null, the target is not written
  InputTarget target;
};

/// Whether results can be written to such a target: float16, or symmetric integers with a scale for
/// each 128 inputs. `decode`: only attend_decode() or append_attend() writes them.
bool attention_writes(const AttentionLayer& layer, const InputTarget& target, bool decode);

/// Whether attend_decode() gives each item and KV head to one warp, as there are enough of them, or
/// to all warps of a block: which kernel a step has depends on it.
bool decodes_by_warps(const DevicePlan& plan, std::int64_t heads, std::int64_t kv_heads);
/// Rows of sequences that have one row in the step (the plan's decode items). `partials` [
/// partial_floats()] holds results of splits.
void attend_decode(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                   const DevicePlan& plan, float* partials, const AttentionOutput& output,
                   cudaStream_t stream);
/// append() and attend_decode() of a step in which each of the m rows is a sequence's only one: the
/// same results in one kernel. False where it does not serve, and nothing was done: not in
/// fragments, rotary not a multiple of 8, qkv, norms or key centres not at multiples of 16 bytes,
/// or many rows. It reads pages and the plan while kernels before it may still run: what wrote them
/// must have ended, as it has where a step begins with StepUpload.
bool append_attend(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan,
                   std::int64_t m, std::byte* pages, float* partials, const AttentionOutput& output,
                   cudaStream_t stream);
/// The rows of all other sequences (the plan's prefill items).
void attend_prefill(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                    const DevicePlan& plan, const AttentionOutput& output, cudaStream_t stream);

}  // namespace nibble::ops::cuda
