#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nibble::formats {

/// Whether Hadamard(size) can be built: 1, 2, and base * 2^m for a base of at most 512 that is 4 *
/// an odd number (or that times a power of two) and one more than a prime (Paley I) or twice one
/// more than a prime (Paley II): 12, 20, 24, 28, 36, 44, 60, 76, 84, 104, 108, 140, 148, ...
bool hadamard_exists(std::int64_t size);

/// The orthonormal Hadamard matrix of one size, entries +-1/sqrt(size):
///
///   H = (B (x) S) / sqrt(size)        H H^T = I
///
/// S is Sylvester's matrix of size 2^m, S[i, j] = (-1)^popcount(i & j). B is the smallest base that
/// leaves a power of two, made of quadratic residues modulo a prime q (Paley 1933, constructions I
/// and II; no tables), with chi the Legendre symbol and Q[i, j] = chi(i - j):
///
///   Paley I    q = base - 1 = 3 mod 4       B = I + [ 0 1^T ; -1 Q ]
///   Paley II   q = base / 2 - 1 = 1 mod 4   B = [ 0 1^T ; 1 Q ] (x) [ 1 1 ; 1 -1 ]
///                                               + I (x) [ 1 -1 ; -1 -1 ]
///
/// Powers of two and Paley II are symmetric (H = H^T); Paley I is not.
///
/// A row is a row vector, and several blocks in it are turned each on its own: x <- x diag(H, ...,
/// H). Applied to the input and to every row of a weight it changes no product: (x H)(W H)^T = x
/// W^T. The order of additions is fixed, so results are the same on every machine.
class Hadamard {
 public:
  /// Throws kUsage when the size can't be built.
  explicit Hadamard(std::int64_t size);

  std::int64_t size() const { return base_ * butterflies_; }
  bool symmetric() const { return symmetric_; }

  /// x <- x H for each block of size() values. Throws kUsage when the row is no multiple of it.
  void apply(std::span<float> row) const;
  void apply(std::span<double> row) const;

  /// The inverse: x <- x H^T.
  void apply_transposed(std::span<float> row) const;
  void apply_transposed(std::span<double> row) const;

 private:
  std::int64_t base_ = 1;
  std::int64_t butterflies_ = 1;  // size of S
  bool symmetric_ = true;
  std::vector<float> signs_;  // B, [base, base]; empty for powers of two
};

/// One row, blocks of `block` values. For many rows make one Hadamard: it builds B once.
void apply_hadamard(std::span<float> row, std::int64_t block);
void apply_hadamard_transposed(std::span<float> row, std::int64_t block);

}  // namespace nibble::formats
