#pragma once

#include "ops/cpu/attention/tiles/attention_tiles.h"

namespace nibble::ops::cpu {

/// The loops on emulated tiles, with the vectors of AVX-512. Run where the CPU has those.
const AttentionTiles& emulated_attention_avx512();  // x86-64

}  // namespace nibble::ops::cpu
