#include "eval/tasks/task_files.h"

#include <algorithm>
#include <cassert>

#include "characters/utf8.h"
#include "core/json.h"
#include "io/file_descriptor.h"
#include "io/text_file.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using core::Json;

constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMaxChoices = 1000;
constexpr std::size_t kTextChoices = 4;  // of an item in kSixLines

// Lines of a file with their numbers.
class LineReader {
 public:
  LineReader(std::string text, std::string name) : text_(std::move(text)), name_(std::move(name)) {}

  // Whether there is another line; "\r\n" ends a line like "\n".
  bool next(std::string_view& line) {
    if (at_ >= text_.size()) {
      return false;
    }
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    line = std::string_view(text_).substr(at_, end - at_);
    line = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
    at_ = end + 1;
    ++number_;
    return true;
  }

  // The next line of an item that has begun.
  std::string_view need(std::string_view what) {
    std::string_view line;
    core::require(next(line), ErrorKind::kInvalidModel,
                  "{}, line {}: the file ends where {} stands", name_, number_ + 1, what);
    core::require(!line.empty(), ErrorKind::kInvalidModel, "{}: an empty line where {} stands",
                  core::lazily([&] { return where(); }), what);
    core::require(characters::is_valid_utf8(line), ErrorKind::kInvalidModel, "{}: not valid UTF-8",
                  core::lazily([&] { return where(); }));
    return line;
  }

  std::string where() const { return fmt::format("{}, line {}", name_, number_); }

 private:
  std::string text_;
  std::string name_;
  std::size_t at_ = 0;
  std::int64_t number_ = 0;
};

std::int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string get_text(const Json& object, std::string_view key, std::string_view where) {
  std::string text = core::get_string(object, key, where);
  core::require(!text.empty(), ErrorKind::kInvalidModel, "{}: '{}' is empty", where, key);
  return text;
}

std::vector<std::string> get_texts(const Json& object, std::string_view key,
                                   std::string_view where) {
  const auto at = object.find(key);
  core::require(at != object.end() && at->is_array(), ErrorKind::kInvalidModel,
                "{}: expected a list of texts in '{}'", where, key);
  core::require(at->size() >= 2 && at->size() <= kMaxChoices, ErrorKind::kInvalidModel,
                "{}: '{}' holds {} texts; 2 to {} are allowed", where, key, at->size(),
                kMaxChoices);
  std::vector<std::string> texts;
  for (const Json& text : *at) {
    core::require(text.is_string() && !text.get_ref<const std::string&>().empty(),
                  ErrorKind::kInvalidModel, "{}: '{}' holds something that is not a text", where,
                  key);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

void add_choice(TaskItem& item, std::string context, std::string_view delimiter,
                const std::string& choice) {
  item.requests.push_back({std::move(context), std::string(delimiter) + choice});
  item.choice_lengths.push_back(characters(choice));
}

std::int64_t get_gold(const Json& object, std::size_t choices, std::string_view where) {
  return core::get_integer(object, "gold", where, 0, static_cast<std::int64_t>(choices) - 1);
}

TaskItem item_of_json(const Json& object, const Task& task, std::string where) {
  core::require(object.is_object(), ErrorKind::kInvalidModel, "{}: expected a JSON object", where);
  TaskItem item;
  switch (task.layout) {
    case ItemLayout::kChoices: {
      const std::string context = task.context(get_text(object, "query", where));
      for (const std::string& choice : get_texts(object, "choices", where)) {
        add_choice(item, context, task.delimiter, choice);
      }
      item.gold = get_gold(object, item.requests.size(), where);
      break;
    }
    case ItemLayout::kContextOptions: {
      const std::string continuation = get_text(object, "continuation", where);
      for (const std::string& option : get_texts(object, "context_options", where)) {
        add_choice(item, task.context(option), task.delimiter, continuation);
      }
      item.gold = get_gold(object, item.requests.size(), where);
      break;
    }
    case ItemLayout::kContinuation:
      add_choice(item, task.context(get_text(object, "context", where)), task.delimiter,
                 get_text(object, "continuation", where));
      break;
    case ItemLayout::kSentencePair:
      add_choice(item, "", task.delimiter, get_text(object, "sentence_good", where));
      add_choice(item, "", task.delimiter, get_text(object, "sentence_bad", where));
      break;
    case ItemLayout::kSixLines:
      assert(false);  // read_six_lines
  }
  item.where = std::move(where);
  return item;
}

TaskItem read_six_lines(std::string_view first, LineReader& lines, const Task& task) {
  TaskItem item;
  item.where = lines.where();
  core::require(characters::is_valid_utf8(first) && !first.empty(), ErrorKind::kInvalidModel,
                "{}: expected the context of an item", item.where);
  const std::string context = task.context(first);
  const std::string_view gold = lines.need("the number of the right ending");
  core::require(
      gold.size() == 1 && gold[0] >= '0' && gold[0] < '0' + int{kTextChoices},
      ErrorKind::kInvalidModel, "{}: expected the number of the right ending, 0 to {}, not '{}'",
      core::lazily([&] { return lines.where(); }), kTextChoices - 1, core::printable(gold));
  item.gold = gold[0] - '0';
  for (std::size_t i = 0; i < kTextChoices; ++i) {
    add_choice(item, context, task.delimiter, std::string(lines.need("an ending")));
  }
  return item;
}

}  // namespace

std::vector<TaskPart> find_task_parts(const fs::path& folder, const Task& task) {
  const fs::path path = folder / task.file;
  core::require(fs::exists(path), ErrorKind::kIo,
                "'{}' does not exist; --data names the folder of the tasks' files",
                io::shown(path));
  if (!fs::is_directory(path)) {
    return {{std::string(task.name), path}};
  }
  std::vector<TaskPart> parts;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".jsonl") {
      parts.push_back(
          {fmt::format("{}_{}", task.name, entry.path().stem().string()), entry.path()});
    }
  }
  core::require(!parts.empty(), ErrorKind::kIo, "'{}' holds no .jsonl file", io::shown(path));
  std::sort(parts.begin(), parts.end(),
            [](const TaskPart& a, const TaskPart& b) { return a.name < b.name; });
  return parts;
}

std::vector<TaskItem> read_task_items(const fs::path& file, const Task& task, std::int64_t limit) {
  const std::string name = core::printable(file.string(), 500);
  LineReader lines(io::read_text_file(file, kMaxFileBytes), name);
  std::vector<TaskItem> items;
  std::string_view line;
  while ((limit == 0 || static_cast<std::int64_t>(items.size()) < limit) && lines.next(line)) {
    if (task.layout == ItemLayout::kSixLines) {
      items.push_back(read_six_lines(line, lines, task));
    } else {
      items.push_back(item_of_json(core::parse_json(line, lines.where()), task, lines.where()));
    }
  }
  core::require(!items.empty(), ErrorKind::kInvalidModel, "{}: the file holds no item", name);
  return items;
}

}  // namespace nibble::eval
