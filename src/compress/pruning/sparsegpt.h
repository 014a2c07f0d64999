#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/gptq/cholesky.h"
#include "compress/pruning/sparsity.h"
#include "core/threads.h"

namespace nibble::compress {

/// SparseGPT (arXiv 2301.00774, Algorithm 1): goes over the inputs in their order, prunes where
/// w^2 / U_ii^2 is lowest, and makes up for each pruned weight with the inputs still to come. What
/// is pruned is chosen when its turn comes: out of 128 inputs of all rows together, or out of M
/// consecutive inputs of a row. Inputs that were never active go first.
///
/// weights [n, k] row-major, finite: become 0 where pruned, and take the updates elsewhere. The
/// factor must be that of the inputs in their order (not "descending"). Returns kept [n, k]: 0 for
/// a pruned weight, else 1.
std::vector<std::uint8_t> sparsegpt(std::span<float> weights, std::int64_t n, std::int64_t k,
                                    const Sparsity& sparsity, const InverseFactor& factor,
                                    core::ThreadPool& pool);

/// The same for weights that have been chosen: makes 0 what `kept` [n, k] leaves out, and makes up
/// for it.
void prune_chosen(std::span<float> weights, std::int64_t n, std::int64_t k,
                  std::span<const std::uint8_t> kept, const InverseFactor& factor,
                  core::ThreadPool& pool);

}  // namespace nibble::compress
