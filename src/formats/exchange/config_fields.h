#pragma once

#include <cstdint>
#include <string_view>

#include "core/json_type.h"
#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// Bits of integer codes: 2, 3, 4 or 8. Throws kInvalidModel for others.
int read_bits(const core::Json& config, std::string_view key);

/// Inputs that share a scale: 0 (a whole row) for -1, or positive. Throws kInvalidModel for others.
std::int64_t read_group(const core::Json& config, std::string_view key);

}  // namespace nibble::formats::exchange
