#pragma once

#include <cstdint>

#include "models/network.h"

namespace nibble::tune {

/// About what a forward and a backward pass of so many tokens through a stack hold at a time:
/// values, their gradients, and copies on the way.
std::int64_t activation_bytes(const models::Stack& stack, std::int64_t tokens);

}  // namespace nibble::tune
