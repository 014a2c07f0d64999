#pragma once

#include <cstdint>

#include "core/threads.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/sparse/tile_units.h"
#include "ops/linear_kernel.h"

namespace nibble::ops::cuda {

/// Why weights of this scheme with k inputs do not come into the layout of tile_units.h.
Refusal tile_units_refusal(const formats::Scheme& scheme, std::int64_t k);

/// Valid weights in that layout. Throws kUsage where they do not come into it.
PackedTiles pack_tiles(const UnitRows& rows, core::ThreadPool& pool);

}  // namespace nibble::ops::cuda
