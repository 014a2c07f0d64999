#include "serve/tool_calls.h"

#include <algorithm>
#include <utility>

#include "core/ordered_json.h"

namespace nibble::serve {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::string_view kBlanks = " \t\r\n";

bool is_blank(char c) {
  return kBlanks.find(c) != std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Walks over the members of an object in valid JSON, without a tree: what a model writes may nest
// as deeply as its context is long.
class Members {
 public:
  explicit Members(std::string_view object) : rest_(object.substr(1)) {}

  /// The next name, as it is written between its quotes, and the text of its value.
  std::optional<std::pair<std::string_view, std::string_view>> next() {
    rest_.remove_prefix(rest_.find_first_not_of(" \t\r\n,"));
    if (rest_.front() == '}') {
      return std::nullopt;
    }
    const std::string_view name = take(string_bytes());
    rest_.remove_prefix(rest_.find_first_not_of(" \t\r\n:"));
    return std::pair(name.substr(1, name.size() - 2), take(value_bytes()));
  }

 private:
  std::string_view take(std::size_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::size_t string_bytes(std::size_t at = 0) const {
    std::size_t end = at + 1;
    while (rest_[end] != '"') {
      end += rest_[end] == '\\' ? 2 : 1;
    }
    return end + 1 - at;
  }

  std::size_t value_bytes() const {
    std::size_t depth = 0;
    std::size_t at = 0;
    do {
      const char c = rest_[at];
      if (depth == 0 && (c == ',' || c == '}' || is_blank(c))) {
        return at;  // behind a number or a word
      }
      depth += c == '{' || c == '[' ? 1 : 0;
      depth -= c == '}' || c == ']' ? 1 : 0;
      const bool string = c == '"';
      at += string ? string_bytes(at) : 1;
      if (depth == 0 && (string || c == '}' || c == ']')) {
        return at;
      }
    } while (true);
  }

  std::string_view rest_;
};

}  // namespace

ToolCallReader::ToolCallReader(ToolCallOptions options, std::string id)
    : options_(std::move(options)),
      id_(std::move(id)),
      state_(options_.format == ToolFormat::kHermes  ? State::kText
             : options_.format == ToolFormat::kLlama ? State::kStart
                                                     : State::kPlain) {}

ToolText ToolCallReader::add(std::string_view piece) {
  ToolText text;
  for (const char c : piece) {
    switch (state_) {
      case State::kStart:
        read_start(c, text);
        break;
      case State::kText:
        read_text(c, text);
        break;
      case State::kCall:
        read_call(c, text);
        break;
      case State::kPlain:
        text.content += c;
        break;
    }
  }
  return text;
}

ToolText ToolCallReader::finish() {
  ToolText text;
  if (state_ == State::kCall) {
    end_call(held_.size() - matched_, text);
  } else {
    release(text);
  }
  return text;
}

void ToolCallReader::read_start(char c, ToolText& text) {
  held_ += c;
  if (c == '{') {
    begin_call();
    begin_ = held_.size() - 1;
  } else if (!is_blank(c)) {
    release(text);
    state_ = State::kPlain;
  }
}

void ToolCallReader::read_text(char c, ToolText& text) {
  if (matched_ > 0 && c == kOpen[matched_]) {
    held_ += c;
    if (++matched_ == kOpen.size()) {
      begin_call();
    }
    return;
  }
  if (matched_ > 0) {
    release(text);
  }
  if (is_blank(c)) {
    held_ += behind_call_ ? "" : std::string_view(&c, 1);
    return;
  }
  held_ += c;
  if (c == kOpen.front()) {
    matched_ = 1;
  } else {
    release(text);
  }
}

// A mark in a JSON string is a part of it. Such a string has no control characters: one that was
// not closed ends with its line.
void ToolCallReader::read_call(char c, ToolText& text) {
  held_ += c;
  if (options_.format == ToolFormat::kLlama) {
    return;  // to the end of the text
  }
  if (quoted_) {
    quoted_ = (c != '"' || escaped_) && static_cast<unsigned char>(c) >= 0x20;
    escaped_ = quoted_ && c == '\\' && !escaped_;
    return;
  }
  quoted_ = c == '"';
  matched_ = c == kClose[matched_] ? matched_ + 1 : c == kClose.front() ? 1 : 0;
  if (matched_ == kClose.size()) {
    end_call(held_.size() - matched_, text);
  }
}

void ToolCallReader::begin_call() {
  state_ = State::kCall;
  begin_ = held_.size();
  matched_ = 0;
  quoted_ = false;
  escaped_ = false;
}

void ToolCallReader::end_call(std::size_t end, ToolText& text) {
  auto call = parse_call(trimmed(std::string_view(held_).substr(begin_, end - begin_)));
  state_ = State::kText;
  if (!call) {
    release(text);
    return;
  }
  held_.clear();
  matched_ = 0;
  behind_call_ = true;
  if (options_.parallel || calls_ == 0) {
    call->id = id_ + std::to_string(calls_++);
    text.calls.push_back(std::move(*call));
  }
}

// Nothing in it is a call.
void ToolCallReader::release(ToolText& text) {
  behind_call_ = behind_call_ && held_.empty();
  text.content += std::exchange(held_, "");
  matched_ = 0;
}

std::optional<ToolCall> ToolCallReader::parse_call(std::string_view json) const {
  if (!json.starts_with('{') || !OrderedJson::accept(json)) {
    return std::nullopt;
  }
  ToolCall call{"", "", "{}"};
  Members members(json);
  while (const auto member = members.next()) {
    const auto& [name, value] = *member;
    if (name == "name") {
      call.name = value.front() == '"' ? value.substr(1, value.size() - 2) : "";
    } else if (name == "arguments" || name == "parameters") {
      call.arguments = value;
    }
  }
  const bool known =
      std::find(options_.names.begin(), options_.names.end(), call.name) != options_.names.end();
  return known && call.arguments.starts_with('{') ? std::optional(std::move(call)) : std::nullopt;
}

}  // namespace nibble::serve
