#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/ranked_token.h"

namespace nibble::ops::cuda {

/// The most tokens that are ranked on the device.
inline constexpr std::int64_t kMaxRanked = 1024;

/// Bytes of memory that rank() needs beside its results.
std::int64_t ranking_bytes(std::int64_t m, std::int64_t columns, std::int64_t count);

/// ranked[i] = the `count` tokens of row i with the largest logits, in their order, the lower id
/// first of equal ones. A row that holds NaN begins with id -1. logits [m, columns] float32, ranked
/// [m, count], 1 <= count <= min(columns, kMaxRanked), `scratch` of ranking_bytes(). `ranked` may
/// be pinned memory of the host, all else is the device's. Fastest for a count of up to about 100.
void rank(const float* logits, std::int64_t m, std::int64_t columns, std::int64_t count,
          RankedToken* ranked, void* scratch, cudaStream_t stream);

}  // namespace nibble::ops::cuda
