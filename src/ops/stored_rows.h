#pragma once

#include <cstdint>
#include <span>

namespace nibble::ops {

/// A table [rows, columns] that lies in a form of its own, whose rows become numbers when they are
/// looked up.
class StoredRows {
 public:
  virtual ~StoredRows() = default;
  virtual std::int64_t rows() const = 0;
  virtual std::int64_t columns() const = 0;
  /// Of the whole table, as it is stored.
  virtual std::int64_t bytes() const = 0;
  /// Row `row` as float32, out[columns].
  virtual void read(std::int64_t row, std::span<float> out) const = 0;
};

}  // namespace nibble::ops
