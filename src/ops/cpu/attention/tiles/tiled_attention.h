#pragma once

#include "ops/cpu/attention/attention.h"
#include "ops/cpu/attention/tiles/attention_tiles.h"

namespace nibble::ops::cpu {

/// Whether attend_in_tiles() takes keys and values of these types: all but codes of integers, which
/// are multiplied as they are stored.
bool has_attention_tiles(KvType keys, KvType values);

/// attend_rows() within the bound of attention_tiles.h. A row that comes out infinite or NaN is
/// made again by attend_rows(), so that infinities, NaN, and numbers that leave the range of digits
/// or sums give what they give there.
void attend_in_tiles(const AttentionTiles& tiles, const AttentionProblem& problem);

}  // namespace nibble::ops::cpu
