#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/pruning/sparsity.h"
#include "core/threads.h"

namespace nibble::compress {

/// Wanda (arXiv 2306.11695, section 3): prunes the weights of each row (or of each M consecutive
/// inputs of it) that have the lowest |w| sqrt(E[x^2]). No weight changes otherwise.
///
/// weights [n, k] row-major, finite; mean_squares [k]: E[x^2] of each input; empty: all inputs
/// count alike, as in pruning by magnitude (arXiv 1506.02626, here within each row). Returns kept
/// [n, k]: 0 for a pruned weight, else 1.
std::vector<std::uint8_t> wanda(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                std::span<const float> mean_squares, const Sparsity& sparsity,
                                core::ThreadPool& pool);

}  // namespace nibble::compress
