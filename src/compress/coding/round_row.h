#pragma once

#include <span>

#include "formats/format.h"

namespace nibble::compress {

/// Replaces the weights of one output row by what round to nearest makes of them.
void round_row(const formats::Format& format, std::span<float> row);

}  // namespace nibble::compress
