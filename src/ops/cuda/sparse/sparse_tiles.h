#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "core/float16.h"
#include "device/cuda/memory.h"
#include "ops/cuda/linear/wide_rows.h"
#include "ops/cuda/sparse/half_product.h"
#include "ops/cuda/sparse/tile_units.h"

namespace nibble::ops::cuda {

/// Tiles on the device (tile_units.h), as kernels get them.
struct TilesView {
  const std::byte* units = nullptr;
  const std::int32_t* first_units = nullptr;  // [n / 16 + 1]
  int n = 0;
  int k = 0;
  bool pairs = false;
};

/// The weights of a layer, and memory to widen some of their rows.
class SparseTiles {
 public:
  /// Uploads. `scratch`: as that of SparseRows. Throws kOutOfMemory.
  SparseTiles(const PackedTiles& packed, std::shared_ptr<WideScratch> scratch);

  const TilesView& view() const { return view_; }
  std::int64_t bytes() const { return units_.bytes() + first_units_.bytes(); }
  /// In the scratch: [rows_at_once()][k].
  core::Fp16* wide_rows() const { return wide_.rows(); }

 private:
  device::cuda::Buffer units_;
  device::cuda::Buffer first_units_;
  TilesView view_;
  WideRows wide_;
};

/// The most tokens of a launch.
inline constexpr std::int64_t kMostTileTokens = 64;

/// At most kMostTileTokens tokens.
struct TilesProblem : HalfProduct {
  const TilesView* weight = nullptr;
};

/// Starts the product on `stream`: a thread block for each tile, whose warps take its units in
/// turns. Weights are rounded to float16 once, sums are float32, and those of the warps are added
/// in their order: a token's result is the same in every batch. Reads the weight at once and all
/// else after the kernels before it in the stream have ended (dependent_launch.cuh).
void sparse_tiles(const TilesProblem& problem, cudaStream_t stream);

/// Rows [first, first + count) of a weight as float16, each rounded once: values [count][k]. Both
/// are multiples of 32, or end with the weight.
void widen_tiles(const TilesView& weight, std::int64_t first, std::int64_t count,
                 core::Fp16* values, cudaStream_t stream);

}  // namespace nibble::ops::cuda
