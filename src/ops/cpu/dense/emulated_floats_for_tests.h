#pragma once

#include "ops/cpu/dense/float_tiles.h"

namespace nibble::ops::cpu {

/// The loops on emulated tiles, with the vectors of AVX-512. Run where the CPU has those.
const FloatTiles& emulated_floats_avx512();  // x86-64

}  // namespace nibble::ops::cpu
