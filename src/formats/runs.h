#pragma once

#include <cstdint>
#include <span>

#include "formats/packed_weight.h"

namespace nibble::formats {

/// How weights lie that are coded many together, not one by one.
struct Runs {
  std::int64_t rows = 1;  // of a run; they divide the weight's rows and inputs
  std::int64_t inputs = 1;
  /// What CodeType::decode() takes, for inputs [begin, begin + codes.size()) of a row.
  void (*unpack)(const PackedWeight& weight, std::int64_t row, std::int64_t begin,
                 std::span<std::uint8_t> codes) = nullptr;
};

/// Those of a scheme; null where each weight has a code of its own.
const Runs* runs_of(const Scheme& scheme);

}  // namespace nibble::formats
