#include "report/html.h"

#include <fmt/format.h>

namespace nibble::report {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .75rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
)";

std::string cells(const std::vector<std::string>& row, std::string_view tag) {
  std::string html = "<tr>";
  for (const std::string& cell : row) {
    html += fmt::format("<{}>{}</{}>", tag, escape_html(cell), tag);
  }
  return html + "</tr>\n";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '&':
        html += "&amp;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string to_html(const Table& table) {
  std::string html =
      "<div class=\"wide\"><table>\n<thead>" + cells(table.columns, "th") + "</thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += cells(row, "td");
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string page(std::string_view title, const std::vector<std::string>& sections) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      escape_html(title), kStyle);
  for (const std::string& section : sections) {
    html += section;
  }
  return html + "</body>\n</html>\n";
}

}  // namespace nibble::report
