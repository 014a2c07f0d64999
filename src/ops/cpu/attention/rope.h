#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nibble::ops::cpu {

/// cos and sin of one position for all frequencies, shared by the heads of a row
/// (RoPE, arXiv 2104.09864).
struct Rotation {
  std::vector<float> cosine;  // [half]
  std::vector<float> sine;    // [half]

  /// Angles position * inverse_frequency[i]; both tables are multiplied by `factor`.
  void set(std::span<const float> inverse_frequency, std::int64_t position, float factor);
};

/// Turns one head in place, "rotate half" layout: element i turns with element i + half. Elements
/// from 2 half on stay as they are.
void rotate(float* head, const Rotation& rotation);

}  // namespace nibble::ops::cpu
