#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "core/float16.h"
#include "device/cuda/memory.h"
#include "ops/cuda/linear/wide_rows.h"
#include "ops/cuda/sparse/half_product.h"
#include "ops/cuda/trellis/trellis_units.h"

namespace nibble::ops::cuda {

/// Units on the device (trellis_units.h), as kernels get them.
struct TrellisView {
  const std::uint32_t* words = nullptr;
  const float* scales = nullptr;  // [n], which are float16 values
  int bits = 4;
  int n = 0;
  int k = 0;
  bool pairs = false;
};

/// The weights of a layer, and memory to widen some of their rows.
class TrellisWeights {
 public:
  /// Uploads. `scratch` may be null, where nothing is widened; else it gets room for
  /// rows_at_once(). Throws kOutOfMemory.
  TrellisWeights(const PackedTrellis& packed, std::shared_ptr<WideScratch> scratch);

  const TrellisView& view() const { return view_; }
  std::int64_t bytes() const { return words_.bytes() + scales_.bytes(); }
  /// In the scratch: [rows_at_once()][k].
  core::Fp16* wide_rows() const { return wide_.rows(); }

 private:
  device::cuda::Buffer words_;
  device::cuda::Buffer scales_;
  TrellisView view_;
  WideRows wide_;
};

/// The most tokens of a launch.
inline constexpr std::int64_t kMostTrellisTokens = 64;

/// At most kMostTrellisTokens tokens; columns of x are padded with zeros to a multiple of 128.
struct TrellisProblem : HalfProduct {
  const TrellisView* weight = nullptr;
  int multiprocessors = 0;  // of the device
};

/// Starts the product on `stream`: thread blocks take tiles in turns, and their warps the units of
/// a tile. Each lane looks values up in a copy of the book that its bank of shared memory has for
/// itself: no lane waits for another. Values are integers, which float16 holds exactly; sums are
/// float32, those of the warps are added in their order, and scales come last. A token's result is
/// the same in every batch of up to 8 tokens, and in every batch of 9 to kMostTrellisTokens. Reads
/// the weight at once and all else after the kernels before it in the stream have ended
/// (dependent_launch.cuh). Needs sm_80. Throws kFailed for another number of tokens.
void trellis_products(const TrellisProblem& problem, cudaStream_t stream);

/// Rows [first, first + count) of a weight as float16, each rounded once: values [count][k]. Both
/// are multiples of 32, or end with the weight.
void widen_trellis(const TrellisView& weight, std::int64_t first, std::int64_t count,
                   int multiprocessors, core::Fp16* values, cudaStream_t stream);

}  // namespace nibble::ops::cuda
