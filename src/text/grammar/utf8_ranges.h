#pragma once

#include <cstdint>
#include <vector>

#include "text/grammar/grammar.h"

namespace nibble::text {

struct ByteRange {
  std::uint8_t low = 0;
  std::uint8_t high = 0;
};

/// Ranges of the bytes of one to four byte characters.
using Utf8Sequence = std::vector<ByteRange>;

/// Sequences that together are the UTF-8 of exactly the code points of a range, without surrogates
/// (the construction of Thompson's utf8 automata: ranges are cut where lengths change and where
/// following bytes do not run over all values).
std::vector<Utf8Sequence> utf8_sequences(CodePointRange range);

}  // namespace nibble::text
