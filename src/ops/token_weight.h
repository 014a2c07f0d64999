#pragma once

#include <cstdint>

namespace nibble::ops {

/// What a token weighs in a draw: kFirstWeight times its probability beside that of the first one,
/// rounded down. Sums of a row's weights fit 64 bits for vocabularies of up to 2^19 tokens.
using TokenWeight = std::uint64_t;
inline constexpr int kWeightBits = 44;
inline constexpr TokenWeight kFirstWeight = TokenWeight{1} << kWeightBits;

}  // namespace nibble::ops
