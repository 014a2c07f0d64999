#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/packed/raw_rows.h"
#include "ops/cuda/packed/unit_format.h"

namespace nibble::ops::cuda {

/// Writes the units of all rows, whose bytes lie on the device: ceil(count / 64) row groups.
void pack_units(const RawRows& raw, const UnitFormat& format, std::byte* units,
                cudaStream_t stream);

/// Sums of a row's weights as units hold them, with scales and factors, over each `step` inputs (0:
/// over all): sums [n, ceil(k / step)], what an activation's zero point is multiplied with. In
/// double precision, in the order of the inputs.
void sum_rows(const UnitsView& weight, std::int64_t step, float* sums, cudaStream_t stream);

}  // namespace nibble::ops::cuda
