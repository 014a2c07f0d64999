#include "report/html.h"

#include <fmt/format.h>

namespace nibble::report {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; --main: #1f6feb; --second: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --main: #58a6ff; --second: #fb923c; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .75rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1.5rem 0; }
figcaption, summary { font-weight: 600; }
.note { opacity: .75; }
svg { max-width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: currentColor; paint-order: stroke; stroke: Canvas; stroke-width: 3px; }
svg .leader { stroke: currentColor; opacity: .4; }
svg .tick { opacity: .75; }
svg .axis { stroke: currentColor; opacity: .6; }
svg .grid { stroke: var(--line); }
svg .point, svg .bar { fill: var(--main); }
svg .error { stroke: var(--main); stroke-width: 1.5; }
svg .front { fill: none; stroke: var(--second); stroke-width: 1.5; }
svg .mark { stroke: var(--second); }
)";

// Characters that stand in no HTML or XML document.
bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
}

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
        html += is_control(c) ? "\xEF\xBF\xBD" : std::string(1, c);  // U+FFFD
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

std::string paragraph(std::string_view text) {
  return "<p>" + escape_html(text) + "</p>\n";
}

std::string foldable(std::string_view summary, std::string_view content) {
  return fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", escape_html(summary),
                     content);
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
