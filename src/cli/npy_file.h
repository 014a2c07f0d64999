#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/atomic_file.h"

namespace nibble::cli {

/// A matrix in NumPy's format (.npy, version 1.0): float32, little endian, rows one after another.
/// It appears when it is complete.
class NpyFile {
 public:
  /// `rows` are known beforehand, their length with the first. Throws as io::AtomicFile.
  NpyFile(const std::string& path, std::int64_t rows) : file_(path), rows_(rows) {}

  /// Throws kFailed for a row that is not as long as the first.
  void add_row(std::span<const float> row);

  /// Once, behind the last row.
  void commit() { file_.commit(); }

  std::int64_t columns() const { return columns_; }

 private:
  void write_header();

  io::AtomicFile file_;
  std::int64_t rows_;
  std::int64_t columns_ = 0;  // 0: before the first row
};

}  // namespace nibble::cli
