#pragma once

#include <cstdint>
#include <vector>

#include "core/threads.h"
#include "ops/cpu/packed/quantized_input.h"
#include "ops/cpu/sparse/rows/token_lanes.h"
#include "ops/cpu/sparse/sparse_kernel.h"
#include "ops/cpu/vector/scratch.h"

namespace nibble::ops::cpu {

/// Of m rows of codes, how many of the first a lane for each multiplies faster: where there are
/// many, whole vectors of lanes, and a last one that has at most 5 to spare.
std::int64_t rows_in_lanes(std::int64_t m);

/// The rows of codes from `first` on. They lie where they are, unless there is padding behind their
/// groups: then they are copied to `scratch` without it.
SparseInput sparse_input(const QuantizedInput& input, std::int64_t first, Scratch& scratch);

/// The rows of x, of k inputs in groups of `group`, by windows, which lie in `scratch`. Blocks have
/// at most `tokens` tokens, and as many as stay in the L1 cache.
SparseWindows sparse_windows(const SparseInput& x, std::int64_t group, std::int64_t k, int tokens,
                             Scratch& scratch, core::ThreadPool& pool);

/// The first `count` rows of codes in blocks of kSparseLanes, which lie in `scratch`.
std::vector<SparseLanes> sparse_lanes(const QuantizedInput& input, std::int64_t count,
                                      Scratch& scratch, core::ThreadPool& pool);

}  // namespace nibble::ops::cpu
