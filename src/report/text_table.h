#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace nibble::report {

/// Rows of text cells under a header; the first column is left-aligned, the others right-aligned.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// A table cut to a width, and the names of the columns that it lost.
struct FittedTable {
  Table table;
  std::vector<std::string> left_out;
};

/// The columns of a table that fit beside its first into `width` columns of text. `importance`
/// holds the numbers of all others, the most important first: of these it keeps as many as fit, up
/// to the first that does not, in the order of the table. Where not even one fits, that one is kept
/// beside a first column with shortened cells.
FittedTable fit_columns(const Table& table, std::span<const std::size_t> importance,
                        std::size_t width);

/// The table in fixed-width text, columns as wide as their longest cell.
std::string to_text(const Table& table);

}  // namespace nibble::report
