#include "report/text_table.h"

#include <algorithm>

#include "report/text_width.h"

namespace nibble::report {
namespace {

std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - text_width(cells[i]), ' ');
    text += i == 0 ? cells[i] + padding : "  " + padding + cells[i];
  }
  return text + "\n";
}

}  // namespace

std::string to_text(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    widths.push_back(text_width(table.columns[i]));
    for (const auto& row : table.rows) {
      widths[i] = std::max(widths[i], text_width(row[i]));
    }
  }
  std::string text = line(table.columns, widths);
  for (const auto& row : table.rows) {
    text += line(row, widths);
  }
  return text;
}

}  // namespace nibble::report
