#pragma once

#include <string>
#include <vector>

namespace nibble::report {

/// Rows of text cells under a header; the first column is left-aligned, the others right-aligned.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// The table in fixed-width text, columns as wide as their longest cell.
std::string to_text(const Table& table);

}  // namespace nibble::report
