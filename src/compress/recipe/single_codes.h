#pragma once

#include <string_view>

#include "formats/scheme.h"

namespace nibble::compress {

/// Throws kUsage where the weights of a scheme are coded many together, and `pass` chooses codes
/// one by one.
void require_single_codes(const formats::Scheme& scheme, std::string_view pass);

}  // namespace nibble::compress
