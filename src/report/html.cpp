#include "report/html.h"

#include <fmt/format.h>

#include "report/svg.h"

namespace nibble::report {
namespace {

constexpr std::string_view kPageStyle =
    R"(body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: clamp(1.4rem, 5vw, 2rem); line-height: 1.25; }
table { margin: 1rem 0; border-collapse: collapse; font-size: .8125rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .35rem .45rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
td { white-space: nowrap; }
td small { display: block; opacity: .75; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
td:first-child { min-width: 8rem; }
@media (max-width: 66rem) {
  .many, .many tbody { display: block; }
  .many thead { display: none; }
  .many tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 0 1.5rem; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .many td { display: flex; flex-wrap: wrap; justify-content: flex-end; align-items: baseline; gap: 0 .4rem; padding: .1rem 0; border: 0; white-space: normal; }
  .many td::before { content: attr(data-label); margin-right: auto; opacity: .75; }
  .many td small { display: inline; }
  .many td:first-child { grid-column: 1 / -1; justify-content: flex-start; font-weight: 600; }
  .many td:first-child::before { content: none; }
}
@media (max-width: 40rem) {
  td { white-space: normal; overflow-wrap: anywhere; }
  td:first-child { min-width: 4rem; }
}
details { margin: .25rem 0; }
figure { margin: 1.5rem 0; overflow-x: auto; }
figcaption, summary { font-weight: 600; }
.note { opacity: .75; }
)";

// Characters that stand in no HTML or XML document.
bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
}

constexpr std::size_t kManyColumns = 5;
constexpr std::string_view kError = " ± ";

std::string head_of(const Table& table) {
  std::string html = "<tr>";
  for (const std::string& column : table.columns) {
    html += fmt::format("<th>{}</th>", escape_html(column));
  }
  return html + "</tr>";
}

// What follows "±" stands small: columns of values with errors stay narrow.
std::string cell(std::string_view column, std::string_view text) {
  const std::size_t error = text.find(kError);
  const std::string value = escape_html(text.substr(0, error));
  return fmt::format("<td data-label=\"{}\">{}{}</td>", escape_html(column), value,
                     error == std::string_view::npos
                         ? ""
                         : fmt::format(" <small>{}</small>", escape_html(text.substr(error + 1))));
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
      fmt::format("<table{}>\n<thead>{}</thead>\n<tbody>\n",
                  table.columns.size() >= kManyColumns ? " class=\"many\"" : "", head_of(table));
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += cell(table.columns[i], row[i]);
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n";
}

std::string paragraph(std::string_view text) {
  return "<p>" + escape_html(text) + "</p>\n";
}

std::string heading(std::string_view text) {
  return "<h2>" + escape_html(text) + "</h2>\n";
}

std::string foldable(std::string_view summary, std::string_view content) {
  return fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", escape_html(summary),
                     content);
}

std::string page(std::string_view title, const std::vector<std::string>& sections) {
  std::string html = fmt::format(
      "{0}\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{1}</title>\n"
      "<style>{2}{3}</style>\n</head>\n<body>\n<h1>{1}</h1>\n",
      kPageBegin, escape_html(title), kDrawingStyle, kPageStyle);
  for (const std::string& section : sections) {
    html += section;
  }
  return html + "</body>\n</html>\n";
}

}  // namespace nibble::report
