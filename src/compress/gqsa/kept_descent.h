#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/threads.h"

namespace nibble::compress {

/// Coordinate descent over the kept weights of each row, one input after another: lowers the error
/// of the outputs, tr((W - T) H (W - T)^T), with every step. SparseGPT's sweep makes up for a
/// weight with later inputs only; this also uses those before it.
///
/// weights [n, k] row-major, 0 where kept [n, k] is 0; target [n, k]; hessian [k, k]: lower
/// triangle of X^T X; damp: the share of its mean diagonal that is added. Each sweep costs n k^2.
void descend_kept(std::span<float> weights, std::span<const float> target,
                  std::span<const std::uint8_t> kept, std::int64_t n, std::int64_t k,
                  const std::vector<float>& hessian, double damp, int sweeps,
                  core::ThreadPool& pool);

}  // namespace nibble::compress
