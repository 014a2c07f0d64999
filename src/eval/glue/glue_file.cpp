#include "eval/glue/glue_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/ranges.h>

#include "characters/utf8.h"
#include "core/error.h"
#include "io/file_descriptor.h"
#include "io/text_file.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using Row = std::vector<std::string_view>;

constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 32;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

Row split_at_tabs(std::string_view line) {
  Row fields;
  for (std::size_t at = 0;;) {
    const std::size_t end = std::min(line.find('\t', at), line.size());
    fields.push_back(line.substr(at, end - at));
    if (end == line.size()) {
      return fields;
    }
    at = end + 1;
  }
}

// Rows of a file with the numbers of their lines.
class RowReader {
 public:
  RowReader(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
    if (text_.starts_with(kByteOrderMark)) {
      text_.remove_prefix(kByteOrderMark.size());
    }
  }

  // Whether there is another row; empty lines are none.
  bool next(Row& row) {
    while (!text_.empty()) {
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++line_;
      line = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
      if (!line.empty()) {
        core::require(characters::is_valid_utf8(line), ErrorKind::kInvalidModel,
                      "{}: not valid UTF-8", core::lazily([&] { return where(); }));
        row = split_at_tabs(line);
        return true;
      }
    }
    return false;
  }

  std::int64_t line() const { return line_; }
  std::string where() const { return fmt::format("{}, line {}", name_, line_); }

 private:
  std::string_view text_;
  std::string name_;
  std::int64_t line_ = 0;
};

// Where the columns of a task stand in a row.
struct Columns {
  std::size_t count = 0;
  std::size_t first = 0;
  std::size_t second = 0;
  std::size_t label = 0;
};

std::optional<std::size_t> find_column(const Row& header,
                                       const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    const auto at = std::find(header.begin(), header.end(), name);
    if (at != header.end()) {
      return static_cast<std::size_t>(at - header.begin());
    }
  }
  return std::nullopt;
}

std::size_t need_column(const Row& header, const std::vector<std::string_view>& names,
                        const std::string& where) {
  const auto found = find_column(header, names);
  core::require(found.has_value(), ErrorKind::kInvalidModel,
                "{}: the header has no column '{}': {}", where, names.front(),
                core::printable(fmt::format("{}", fmt::join(header, ", "))));
  return *found;
}

Columns find_columns(const Row& header, const GlueTask& task, const std::string& where) {
  Columns columns;
  columns.count = header.size();
  columns.first = need_column(header, task.first, where);
  columns.second = task.second.empty() ? 0 : need_column(header, task.second, where);
  columns.label = need_column(header, task.label, where);
  return columns;
}

// Whether the file begins with an item: the columns are those of files without a header.
bool is_headless(const Row& row, const GlueTask& task) {
  return !task.columns.empty() && row.size() == task.columns.size() &&
         !find_column(row, task.label) && !find_column(row, task.first);
}

std::int32_t read_class(std::string_view label, const GlueTask& task, const std::string& where) {
  const auto named = std::find(task.classes.begin(), task.classes.end(), label);
  if (named != task.classes.end()) {
    return static_cast<std::int32_t>(named - task.classes.begin());
  }
  std::int32_t number = -1;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
  const bool known = error == std::errc() && end == label.data() + label.size() && number >= 0 &&
                     number < static_cast<std::int32_t>(task.classes.size());
  core::require(known, ErrorKind::kInvalidModel, "{}: the label '{}' is none of {}, or 0 to {}",
                where, core::printable(label),
                core::lazily([&] { return fmt::format("{}", fmt::join(task.classes, ", ")); }),
                task.classes.size() - 1);
  return number;
}

double read_value(std::string_view label, const std::string& where) {
  double value = NAN;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
  core::require(error == std::errc() && end == label.data() + label.size() && std::isfinite(value),
                ErrorKind::kInvalidModel, "{}: the score '{}' is not a number", where,
                core::printable(label));
  return value;
}

GlueItem read_item(const Row& row, const Columns& columns, const GlueTask& task,
                   const RowReader& reader) {
  const std::string where = reader.where();
  core::require(row.size() == columns.count, ErrorKind::kInvalidModel,
                "{}: {} columns, but the file begins with {}", where, row.size(), columns.count);
  GlueItem item;
  item.line = reader.line();
  item.first = row[columns.first];
  if (!task.second.empty()) {
    item.second = std::string(row[columns.second]);
  }
  if (task.classes.empty()) {
    item.value = read_value(row[columns.label], where);
  } else {
    item.gold = read_class(row[columns.label], task, where);
  }
  return item;
}

}  // namespace

fs::path find_glue_file(const fs::path& path, const GlueTask& task) {
  const fs::path file = fs::is_directory(path) ? path / task.file : path;
  core::require(fs::exists(file), ErrorKind::kIo,
                "'{}' does not exist; --data names a .tsv file of {}, or the folder of GLUE",
                io::shown(file), task.name);
  return file;
}

std::vector<GlueItem> read_glue_items(const fs::path& file, const GlueTask& task,
                                      std::int64_t limit) {
  const std::string name = core::printable(file.string(), 500);
  const std::string text = io::read_text_file(file, kMaxFileBytes);
  RowReader reader(text, name);
  std::vector<GlueItem> items;
  Row row;
  bool more = reader.next(row);
  core::require(more, ErrorKind::kInvalidModel, "{}: the file is empty", name);
  const bool headless = is_headless(row, task);
  const Columns columns = find_columns(headless ? task.columns : row, task, reader.where());
  more = headless || reader.next(row);
  while (more && (limit == 0 || static_cast<std::int64_t>(items.size()) < limit)) {
    items.push_back(read_item(row, columns, task, reader));
    more = reader.next(row);
  }
  core::require(!items.empty(), ErrorKind::kInvalidModel, "{}: the file holds no item", name);
  return items;
}

}  // namespace nibble::eval
