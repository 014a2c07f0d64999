#pragma once

namespace nibble::ops::cuda {

/// 8-bit multiply-adds per second of this GPU's warp-level tensor instructions, from registers.
/// (Those of warp groups on sm_90a reach more.)
double measure_multiply_add_rate();

}  // namespace nibble::ops::cuda
