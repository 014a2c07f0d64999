#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/threads.h"
#include "formats/hadamard.h"

namespace nibble::compress {

/// An orthogonal matrix R [size, size] that spreads each channel over all of them: x <- x R costs
/// n log n. With S = diag(+-1), random, and H Hadamard:
///
///   hadamard               R = H
///   random_hadamard        R = S H                          (QuaRot, arXiv 2404.00456, section 3)
///   random_keeping_ones    R = S H (I - 2 w w^T / w^T w)    w = u S H - u, u = (1, ..., 1)
///
/// The last one mirrors S H so that u R = u: rows keep their mean, and so LayerNorm without weight
/// and bias commutes with it, LN(x R) = LN(x) R, as RMSNorm does with any R.
class Rotation {
 public:
  /// All throw kUsage when there is no Hadamard matrix of this size.
  static Rotation hadamard(std::int64_t size);
  static Rotation random_hadamard(std::int64_t size, std::uint64_t seed);
  static Rotation random_keeping_ones(std::int64_t size, std::uint64_t seed);

  std::int64_t size() const { return hadamard_.size(); }

  /// x <- x R for each block of size() values of a row.
  void apply(std::span<double> row) const;

 private:
  explicit Rotation(std::int64_t size) : hadamard_(size) {}

  formats::Hadamard hadamard_;
  std::vector<double> signs_;   // [size] or empty
  std::vector<double> mirror_;  // w / |w|, [size] or empty
};

/// What W computes from turned inputs x R, the norm's weight before it taken in: W <- W diag(fold)
/// R. `w` [n, k], k a multiple of the rotation's size; `fold` [k] or empty. In float64, rounded
/// once.
void turn_inputs(std::vector<float>& w, std::int64_t k, std::span<const float> fold,
                 const Rotation& rotation, core::ThreadPool& pool);

/// Makes rows [first, first + rows) of W give turned outputs y R: W <- R^T W there; biases (one for
/// each row of W, or none) likewise.
void turn_outputs(std::vector<float>& w, std::int64_t k, std::vector<float>& bias,
                  std::int64_t first, std::int64_t rows, const Rotation& rotation,
                  core::ThreadPool& pool);

}  // namespace nibble::compress
