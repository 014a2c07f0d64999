#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <variant>

#include <cuda_runtime_api.h>

#include "device/cuda/memory.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/cuda/small_batch/small_batch.h"

/// The linear layers and attentions of one token in a decoder, one after another in one kernel
/// (sm_90). Its thread blocks stay; while they wait for what a layer reads, the weights of this
/// layer and the next ones, and keys and values, are on their way into their shared memory.
///
/// Products are exact sums of integers, as those of small_batch.h. A row of float32 is rounded to
/// codes of 16 bits with a power of two for each 128 inputs, before its RMSNorm has its factor:
/// results are multiplied with that. The lowest bit of a number that goes from one layer to the
/// next is lost. So last bits differ from those of small_batch.h and append_attend().
namespace nibble::ops::cuda {

/// y = x W^T + bias of one token. All pointers are of the device.
struct ChainedLayer {
  UnitsView weight = {};
  const float* bias = nullptr;        // [n] or null
  LaneActivations codes = {};         // x, two digits; or, where there are no codes:
  const float* row = nullptr;         // x [k]: of the layer before, if that writes there
  const NormWeights* norm = nullptr;  // whose RMSNorm x is; null: x as it is
  float* y = nullptr;                 // [n], or [n / 2] behind a gate
  bool adds = false;                  // to what y holds
  std::optional<MlpActivation> gate =
      {};  // activation(gate) * up, of rows in pairs (UnitRows::pairs)
};

/// append_attend() of the one row of a step, behind the layer that writes its q, k and v.
struct ChainedAttention {
  AttentionLayer layer;
  const float* qkv = nullptr;  // [(heads + 2 kv_heads) head_dim]
  DevicePlan plan;             // with one sequence
  std::byte* pages = nullptr;  // of the layer
  float* y = nullptr;          // [heads * head_dim], written unless a layer of the chain reads it
};

using ChainLink = std::variant<ChainedLayer, ChainedAttention>;

inline constexpr std::size_t kMostChained = 160;

/// Whether a chain takes layers of this weight, on a GPU that runs chains: INT4, with zeros or
/// without, or with shifts of groups of 32, or codes of books of 16 entries; float16 scales of
/// groups of 32 or of 128 inputs; whole tiles. All layers of a chain are of one kind.
bool is_chainable(const UnitsView& weight);
/// Whether a chain takes attentions of this kind: keys and values in fragments and of one type, no
/// more heads than multiprocessors, what append_attend() needs of norms and RoPE.
bool is_chainable(const AttentionLayer& layer);
/// Whether the current device runs chains: Hopper, and not through MPS, where a chain of another
/// process could run at the same time.
bool chains_run();

/// Runs chains on one stream. No two may run at the same time on one device: blocks wait for each
/// other, and both kernels would wait for the place that the other one takes. So only one of the
/// process may be held() for each device.
class LayerChain {
 public:
  LayerChain() = default;
  ~LayerChain();
  LayerChain(const LayerChain&) = delete;
  LayerChain& operator=(const LayerChain&) = delete;

  /// Whether this is the chain of the current device, which it becomes if there is no other one.
  bool hold();

  /// Whether one kernel takes these links, each of which reads what the one before writes: there
  /// are at most kMostChained, an attention is not the first one and shares its plan, RoPE and
  /// layout with all others, and the layer behind it has no norm. Their number must not cost room
  /// for weights in the shared memory of the current device.
  static bool fits(std::span<const ChainLink> links);

  /// Starts links that fit, of a chain that is held. Reads weights, pages and the plan at once (as
  /// append_attend() does) and all else after the kernels before it in the stream have ended
  /// (dependent_launch.cuh).
  void run(std::span<const ChainLink> links, cudaStream_t stream);

 private:
  /// A row on its way from one layer to the next: its numbers carry in their lowest bit whether
  /// they are of this run.
  struct SentRow {
    std::int64_t count = 0;
    device::cuda::Buffer values;  // [count]
    device::cuda::Buffer runs;    // [blocks]: how often, each block's own count
  };
  const SentRow& row_of(std::int64_t count, int ordinal, int blocks);

  std::list<SentRow> rows_;
  int device_ = -1;  // that is held
};

}  // namespace nibble::ops::cuda
