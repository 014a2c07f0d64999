#pragma once

#include <cstdint>

#include "formats/scheme.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_writer.h"

namespace nibble::ops::cpu {

/// Whether rows have tables of their own, all share one, or codes are weights.
CodeKind kind_of(const formats::Scheme& scheme);

/// Where the parts of tiles lie that hold n outputs and k inputs in groups of `group`, all but the
/// tiles themselves. `scheme` has no tail.
TiledWeight plan_tiles(const formats::Scheme& scheme, std::int64_t n, std::int64_t k,
                       std::int64_t group, const WeightTables& tables);

}  // namespace nibble::ops::cpu
