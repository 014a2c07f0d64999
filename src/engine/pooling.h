#pragma once

#include <span>
#include <vector>

#include "engine/encoder.h"
#include "models/network.h"

namespace nibble::engine {

/// The embedding [columns] of a text from the states of its tokens [rows, columns], at least one.
/// Sums are in double; normalized, a vector of zeros stays.
std::vector<float> pooled(const models::Pooling& pooling, const EncoderRows& states);

/// An embedding scaled to length 1, in the same way.
void normalize(std::span<float> embedding);

}  // namespace nibble::engine
