#pragma once

#include <vector>

#include "ops/cpu/dense/float_tiles.h"

namespace nibble::ops::cpu {

/// The loops on emulated tiles, with plain vectors. A test fails where they leave tiles configured.
const FloatTiles& emulated_floats();

/// The loops on emulated tiles, with the vectors of AVX-512. Run where the CPU has those.
const FloatTiles& emulated_floats_avx512();  // x86-64

/// The same, with up to so many tokens without panels of weights.
FloatTiles with_limit(const FloatTiles& tiles, std::int64_t unpanelled);

/// All that run here: those two, and the tiles of the CPU where it has them.
std::vector<const FloatTiles*> float_tiles_of_tests();

}  // namespace nibble::ops::cpu
