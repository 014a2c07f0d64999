#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/float16.h"
#include "core/random.h"
#include "formats/trellis/trellis_code.h"

namespace nibble::ops::cuda {

/// Random bits, of which all are weights, and scales that differ from row to row.
inline formats::PackedWeight random_trellis(const std::string& scheme_text, std::int64_t n,
                                            std::int64_t k, std::uint64_t seed) {
  const formats::Scheme scheme = formats::parse_scheme(scheme_text);
  core::Random random(seed);
  std::vector<float> scales(static_cast<std::size_t>(n));
  for (float& scale : scales) {
    scale = core::to_float(core::to_fp16(0.001f + 0.01f * static_cast<float>(random.uniform())));
  }
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(n * k / 8 * scheme.code.bits));
  for (std::uint8_t& byte : codes) {
    byte = static_cast<std::uint8_t>(random.below(256));
  }
  return formats::make_trellis_weight(scheme, n, k, codes, scales);
}

}  // namespace nibble::ops::cuda
