#include "report/text_table.h"

#include <algorithm>

#include "report/text_width.h"

namespace nibble::report {
namespace {

constexpr std::size_t kGap = 2;         // between columns
constexpr std::size_t kLeastFirst = 4;  // what a shortened first column keeps

std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - text_width(cells[i]), ' ');
    text += i == 0 ? cells[i] + padding : std::string(kGap, ' ') + padding + cells[i];
  }
  return text + "\n";
}

std::vector<std::size_t> column_widths(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    widths.push_back(text_width(table.columns[i]));
    for (const auto& row : table.rows) {
      widths[i] = std::max(widths[i], text_width(row[i]));
    }
  }
  return widths;
}

void shorten_first(Table& table, std::size_t width) {
  table.columns.front() = cut_to_width(table.columns.front(), width);
  for (auto& row : table.rows) {
    row.front() = cut_to_width(row.front(), width);
  }
}

}  // namespace

FittedTable fit_columns(const Table& table, std::span<const std::size_t> importance,
                        std::size_t width) {
  const std::vector<std::size_t> widths = column_widths(table);
  std::vector<std::size_t> kept = {0};
  std::size_t taken = widths.front();
  for (const std::size_t column : importance) {
    if (kept.size() > 1 && taken + kGap + widths[column] > width) {
      break;
    }
    taken += kGap + widths[column];
    kept.push_back(column);
  }
  std::sort(kept.begin(), kept.end());
  FittedTable fitted;
  fitted.table.rows.resize(table.rows.size());
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (!std::binary_search(kept.begin(), kept.end(), i)) {
      fitted.left_out.push_back(table.columns[i]);
      continue;
    }
    fitted.table.columns.push_back(table.columns[i]);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      fitted.table.rows[row].push_back(table.rows[row][i]);
    }
  }
  if (taken > width) {
    const std::size_t others = taken - widths.front();
    shorten_first(fitted.table, std::max(width, others + kLeastFirst) - others);
  }
  return fitted;
}

std::string to_text(const Table& table) {
  const std::vector<std::size_t> widths = column_widths(table);
  std::string text = line(table.columns, widths);
  for (const auto& row : table.rows) {
    text += line(row, widths);
  }
  return text;
}

}  // namespace nibble::report
