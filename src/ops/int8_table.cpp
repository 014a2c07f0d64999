#include "ops/int8_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace nibble::ops {
namespace {

constexpr int kLargest = 127;
constexpr int kFinest = -10;  // halves, quarters, ... down to 2^-10 are tried

bool fits(std::span<const float> book, double unit, int largest) {
  return std::all_of(book.begin(), book.end(), [unit, largest](float value) {
    const double entry = value / unit;
    return std::fabs(entry) <= largest && entry == std::nearbyint(entry);
  });
}

double choose_unit(std::span<const float> book, int largest_entry) {
  for (int exponent = 0; exponent >= kFinest; --exponent) {
    if (fits(book, std::ldexp(1.0, exponent), largest_entry)) {
      return std::ldexp(1.0, exponent);
    }
  }
  double largest = 0.0;
  for (const float value : book) {
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  }
  return static_cast<float>(largest / largest_entry);
}

Int8Table table_of(std::span<const float> book, int largest) {
  const double unit = choose_unit(book, largest);
  Int8Table table;
  table.unit = static_cast<float>(unit);
  if (table.unit == 0.0f) {  // all values vanish in float32 steps
    return table;
  }
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    const float value = book[std::min(i, book.size() - 1)];
    const double entry = std::nearbyint(value / unit);
    table.entries[i] = static_cast<std::int8_t>(
        std::clamp(entry, static_cast<double>(-largest), static_cast<double>(largest)));
  }
  return table;
}

// Whether an entry is 127 times `sign` and that eight codes apart has the other sign.
bool meets_other_sign(const Int8Table& table, int sign) {
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    if (sign * table.entries[i] == kLargest && sign * table.entries[i ^ 8] < 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

Int8Table int8_table(std::span<const float> book) {
  assert(!book.empty() && book.size() <= 16);
  const Int8Table table = table_of(book, kLargest);
  return meets_other_sign(table, 1) && meets_other_sign(table, -1) ? table_of(book, kLargest - 1)
                                                                   : table;
}

}  // namespace nibble::ops
