#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/gptq/cholesky.h"
#include "core/threads.h"

namespace nibble::compress {

/// What a weight counts for when groups are chosen, D being the diagonal of H^-1.
enum class Saliency {
  kGqsa,  // w^2 / D^2 (GQSA, arXiv 2412.17560, equation 2)
  kObs,   // w^2 / D: what the layer's output loses (Optimal Brain Surgeon)
};

/// How many groups are pruned, and out of which.
struct GroupSparsity {
  double share = 0.5;
  std::int64_t group = 16;  // inputs; divides those of a row
  std::int64_t tile = 1;    // rows that keep the same groups; divides those of the matrix
  bool of_rows = true;      // the share of each row, or tile; false: of the whole matrix
  Saliency saliency = Saliency::kGqsa;
};

/// Diagonal of H^-1 = U^T U by input, from the factor of the damped Hessian: [k].
std::vector<double> inverse_diagonal(const InverseFactor& factor);

/// The mean saliency of the weights of each group: [n, k / group]. Weights [n, k] row-major,
/// finite. Those of inputs that were never active count nothing.
std::vector<double> group_saliency(std::span<const float> weights, std::int64_t n,
                                   const InverseFactor& factor, const GroupSparsity& sparsity,
                                   core::ThreadPool& pool);

/// Prunes the groups with the lowest saliency [n, groups], of the rows of a tile together, the
/// first of equals. Returns kept [n, groups * sparsity.group]: 0 for the weights of a pruned group,
/// else 1.
std::vector<std::uint8_t> choose_groups(std::span<const double> saliency, std::int64_t n,
                                        const GroupSparsity& sparsity);

}  // namespace nibble::compress
