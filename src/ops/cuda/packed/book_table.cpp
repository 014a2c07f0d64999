#include "ops/cuda/packed/book_table.h"

#include <array>

namespace nibble::ops::cuda {

bool write_parts(std::span<const std::int8_t, 16> entries, std::span<std::int8_t, 16> table) {
  constexpr int kLargest = 127;
  for (std::size_t i = 0; i < 8; ++i) {
    const int low = entries[i];
    const int high = entries[i + 8];
    const int high_part = high + (low + (high < 0 ? 1 : 0) < 0 ? 1 : 0);
    const int low_part = low + (high_part < 0 ? 1 : 0);
    if (low_part > kLargest || high_part > kLargest) {
      return false;
    }
    table[i] = static_cast<std::int8_t>(low_part);
    table[15 - i] = static_cast<std::int8_t>(high_part);
  }
  return true;
}

namespace {

bool has_table(const Int8Table& entries) {
  std::array<std::int8_t, 16> table = {};
  return write_parts(entries.entries, table);
}

Int8Table negated(Int8Table entries) {
  for (std::int8_t& entry : entries.entries) {
    entry = static_cast<std::int8_t>(-entry);
  }
  entries.unit = -entries.unit;
  return entries;
}

}  // namespace

Int8Table book_entries(std::span<const float> book) {
  const Int8Table entries = int8_table(book);
  return has_table(entries) ? entries : negated(entries);
}

}  // namespace nibble::ops::cuda
