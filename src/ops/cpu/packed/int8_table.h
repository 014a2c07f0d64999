#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace nibble::ops::cpu {

/// A code book as kernels run it: value(code) = unit * entries[code]. Entries behind a shorter book
/// repeat its last one.
struct Int8Table {
  std::array<std::int8_t, 16> entries{};  // [-127, 127]
  float unit = 0.0f;
};

/// Exact when a power of two makes every value an integer of at most `largest` (FP4: halves);
/// otherwise the largest magnitude becomes `largest` and the others round to nearest, ties to even:
/// an error of at most 1/254 of the largest by default. `book`: 1 to 16 finite values; `largest`: 1
/// to 127.
Int8Table int8_table(std::span<const float> book, int largest = 127);

}  // namespace nibble::ops::cpu
