#pragma once

#include <array>

namespace nibble::gguf_blocks {

/// The values of IQ4_NL's and IQ4_XS's codes, ascending (kvalues_iq4nl of ggml-common.h).
inline constexpr std::array<float, 16> kIq4Book = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                   1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace nibble::gguf_blocks
