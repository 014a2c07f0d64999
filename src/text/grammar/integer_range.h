#pragma once

#include <cstdint>

#include "text/grammar/grammar.h"

namespace nibble::text {

/// The largest magnitude of integers that grammars write: what all JSON readers keep exactly.
inline constexpr std::int64_t kLargestInteger = 9'007'199'254'740'991;  // 2^53 - 1

/// Decimal integers of [low, high], both within kLargestInteger, without leading zeros or "-0".
GrammarSequence integer_range(GrammarBuilder& builder, std::int64_t low, std::int64_t high);

}  // namespace nibble::text
