#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tune/qat/loss_terms.h"

namespace nibble::tune {

/// A text as an encoder reads it, with its answer: a label, or what a decoder writes. Of a decoder
/// without an encoder: the first token of a window, and the others.
struct LabelledText {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> types;  // empty: the model has none
  Label label;
  std::vector<std::int32_t> written = {};  // behind the start token, or the first of a window
};

/// A hash of all of them, in their order.
std::uint64_t hash_of(const std::vector<LabelledText>& texts);

/// The order in which an epoch (0, 1, ...) reads `count` texts: another one for each seed and
/// epoch.
std::vector<std::size_t> order_of_epoch(std::size_t count, std::uint64_t seed, std::int64_t epoch);

}  // namespace nibble::tune
