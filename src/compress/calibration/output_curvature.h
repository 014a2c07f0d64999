#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "core/threads.h"
#include "ops/cpu/matrix.h"
#include "ops/layers.h"

namespace nibble::compress {

/// Outputs that are taken together: the curvature of a wider layer is kept in square blocks of this
/// many outputs, and products across blocks are dropped.
inline constexpr std::int64_t kCurvatureBlock = 512;

/// How the loss of the whole model feels the outputs of one layer: sum over tokens of g g^T, g
/// being the gradient of the loss at the output; the output side of a Kronecker-factored Fisher
/// matrix (K-FAC, arXiv 1503.05671, section 3; for rounding: YAQA, arXiv 2505.22988).
class OutputCurvature {
 public:
  explicit OutputCurvature(std::int64_t n);

  /// One that was measured before: its values(), bytes_for(n) bytes of them.
  OutputCurvature(std::int64_t n, std::vector<float> values) : n_(n), values_(std::move(values)) {}

  /// Bytes that the curvature of n outputs takes.
  static std::int64_t bytes_for(std::int64_t n);

  std::int64_t n() const { return n_; }
  /// The blocks one after another.
  std::span<const float> values() const { return values_; }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(sizeof(float)) * std::ssize(values_);
  }
  std::int64_t blocks() const { return (n_ + kCurvatureBlock - 1) / kCurvatureBlock; }
  std::int64_t first(std::int64_t block) const { return block * kCurvatureBlock; }
  std::int64_t width(std::int64_t block) const;

  /// [width, width] of a block, both triangles.
  std::span<const float> block(std::int64_t block) const;

  /// Adds the rows of g [m, n], `ld` floats apart.
  void add(const float* g, std::int64_t m, std::int64_t ld, core::ThreadPool& pool);

  /// What the curvature would be if outputs first .. first + factors.size() were divided by
  /// `divisors`.
  void divide_outputs(std::int64_t first, std::span<const float> divisors);

 private:
  std::size_t offset(std::int64_t block) const;

  std::int64_t n_;
  std::vector<float> values_;
};

/// The layers of one set.
struct SetCurvature {
  std::vector<OutputCurvature> layers;
  /// How much each token of the calibration windows matters, in their order, 1 on average: the mean
  /// over the layers of |g|^2 over its mean. A Hessian of inputs weighted with it sees which inputs
  /// come with large gradients (GuidedQuant, arXiv 2505.07004, section 3).
  std::vector<float> token_weights;
};

}  // namespace nibble::compress
