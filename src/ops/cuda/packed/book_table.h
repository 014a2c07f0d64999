#pragma once

#include <cstdint>
#include <span>

#include "ops/int8_table.h"

/// Code books in the memory of a GPU. A byte permutation looks up four codes among eight bytes; a
/// selector whose highest bit is set gives the sign of the byte that the others select, 0 or -1.
/// Codes from 8 on therefore give little more than nothing in a table of the first eight entries,
/// as their complements do in a table of the others. Where each table makes up for the signs of the
/// other, an entry is the sum of what the two give, and the codes are selectors as they are.
namespace nibble::ops::cuda {

/// What selector 0 to 15 gives for eight bytes.
constexpr int looked_up(const std::int8_t* bytes, unsigned selector) {
  return selector < 8 ? bytes[selector] : -static_cast<int>(bytes[selector - 8] < 0);
}

/// The entry of a code in a row's table of 16 bytes (write_parts()).
constexpr int book_entry(const std::int8_t* table, unsigned code) {
  return looked_up(table, code) + looked_up(table + 8, 15 - code);
}

/// Writes the table with these entries: its first half for codes 0 to 7, then for 15 down to 8.
/// False when it has none, since 127 and a negative entry are eight codes apart.
bool write_parts(std::span<const std::int8_t, 16> entries, std::span<std::int8_t, 16> table);

/// A book whose entries have a table: that of int8_table(), or its negative with a negative
/// unit, which gives the same integers but for the sign. `book`: 1 to 16 finite values.
Int8Table book_entries(std::span<const float> book);

}  // namespace nibble::ops::cuda
