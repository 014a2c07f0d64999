#include "jinja/lexer.h"

#include <algorithm>
#include <array>

#include "characters/utf8.h"
#include "jinja/tag_text.h"
#include "jinja/texts.h"

namespace nibble::jinja {
namespace {

constexpr std::array<std::string_view, 6> kLongOperators = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kShortOperators = "+-*/%~[](){}<>=.:|,;";

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name_part(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9');
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run();

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }
  Position here() const { return {line_, static_cast<std::int32_t>(at_ - line_start_ + 1)}; }

  void advance_to(std::size_t end);
  void add(TokenKind kind, Position at, std::string text = {}, Value number = {});

  void lex_until_tag();
  void lex_comment();
  void lex_tag(bool is_output);
  bool lex_tag_end(bool is_output);
  void close_tag(std::size_t end_bytes, bool strip_after, bool trim_newline);
  void lex_tag_token();
  bool lex_number();
  void lex_string();
  void lex_operator();
  void balance(char bracket);

  std::string source_;
  std::size_t at_ = 0;
  std::int32_t line_ = 1;
  std::size_t line_start_ = 0;
  bool at_line_start_ = true;   // what was consumed last ended with a newline
  std::vector<char> brackets_;  // open ones of the tag; they hide its end
  std::vector<Token> tokens_;
};

std::vector<Token> Lexer::run() {
  while (at_ < source_.size()) {
    lex_until_tag();
  }
  add(TokenKind::kEnd, here());
  return std::move(tokens_);
}

void Lexer::advance_to(std::size_t end) {
  for (; at_ < end; ++at_) {
    if (source_[at_] == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    }
  }
}

void Lexer::add(TokenKind kind, Position at, std::string text, Value number) {
  tokens_.push_back({kind, at, std::move(text), std::move(number)});
}

// Template text up to the next tag, then that tag.
void Lexer::lex_until_tag() {
  std::size_t tag = at_;
  const auto starts_tag = [&](std::size_t at) {
    return at + 1 < source_.size() && source_[at] == '{' &&
           (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#');
  };
  while (tag < source_.size() && !starts_tag(tag)) {
    ++tag;
  }
  const std::string_view text = std::string_view(source_).substr(at_, tag - at_);
  const Position text_at = here();
  if (tag >= source_.size()) {
    add(TokenKind::kText, text_at, std::string(text));
    advance_to(tag);
    return;
  }
  const char type = source_[tag + 1];
  const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
  const std::string_view kept = text_before_tag(text, sign, type == '{', at_line_start_);
  if (!kept.empty()) {
    add(TokenKind::kText, text_at, std::string(kept));
  }
  advance_to(tag);
  if (type == '#') {
    lex_comment();
  } else {
    lex_tag(type == '{');
  }
}

void Lexer::lex_comment() {
  const Position start = here();
  // The sign of "{#-" may also be the one that closes: "{#-#}".
  std::size_t from = at_ + 2;
  from += from < source_.size() && (source_[from] == '-' || source_[from] == '+') ? 1 : 0;
  const std::size_t end = source_.find("#}", from);
  if (end == std::string::npos) {
    fail_at(start, "a comment is not closed; '#}}' is missing");
  }
  const char sign = end > from ? source_[end - 1] : '\0';
  advance_to(end);
  close_tag(2, sign == '-', sign != '-' && sign != '+');
}

// Steps over the end of a tag and what white space control drops after it.
void Lexer::close_tag(std::size_t end_bytes, bool strip_after, bool trim_newline) {
  std::size_t end = at_ + end_bytes;
  if (strip_after) {
    end = skip_space(source_, end);
  } else if (trim_newline && end < source_.size() && source_[end] == '\n') {
    ++end;
  }
  advance_to(end);
  at_line_start_ = source_[end - 1] == '\n';
}

void Lexer::lex_tag(bool is_output) {
  const Position start = here();
  add(is_output ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, start);
  advance_to(at_ + 2);
  if (sees("-") || sees("+")) {
    advance_to(at_ + 1);
  }
  brackets_.clear();
  advance_to(skip_space(source_, at_));
  while (!lex_tag_end(is_output)) {
    if (at_ >= source_.size()) {
      fail_at(start, "a tag is not closed; '{}' is missing", is_output ? "}}" : "%}");
    }
    lex_tag_token();
    advance_to(skip_space(source_, at_));
  }
}

bool Lexer::lex_tag_end(bool is_output) {
  if (!brackets_.empty()) {
    return false;
  }
  const std::string_view end = is_output ? "}}" : "%}";
  const bool minus = sees("-");
  const bool plus = !is_output && sees("+");
  if (!rest().substr(minus || plus ? 1 : 0).starts_with(end)) {
    return false;
  }
  add(is_output ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, here());
  close_tag(minus || plus ? 3 : 2, minus, !is_output && !minus && !plus);
  return true;
}

void Lexer::lex_tag_token() {
  const Position start = here();
  const char first = source_[at_];
  if (lex_number()) {
    return;
  }
  if (is_name_start(first)) {
    const auto end = std::find_if_not(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                      source_.end(), is_name_part);
    const auto length = static_cast<std::size_t>(end - source_.begin()) - at_;
    add(TokenKind::kName, start, source_.substr(at_, length));
    advance_to(at_ + length);
  } else if (first == '\'' || first == '"') {
    lex_string();
  } else {
    lex_operator();
  }
}

bool Lexer::lex_number() {
  const Position start = here();
  const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // "a.0.1" holds no fraction
  const std::size_t digits = std::min(rest().find_first_not_of("0123456789"), rest().size());
  const std::size_t length = after_dot ? digits : number_length(rest());
  if (length == 0) {
    return false;
  }
  add(TokenKind::kNumber, start, {}, parse_number(rest().substr(0, length), start));
  advance_to(at_ + length);
  return true;
}

void Lexer::lex_string() {
  const Position start = here();
  const char quote = source_[at_];
  std::size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) {
    end += source_[end] == '\\' ? 2 : 1;
  }
  if (end >= source_.size()) {
    fail_at(start, "a string is not closed; {} is missing", quote);
  }
  const std::string_view inside = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
  add(TokenKind::kString, start, unescape_literal(inside, start));
  advance_to(end + 1);
}

void Lexer::lex_operator() {
  const auto longest = std::find_if(kLongOperators.begin(), kLongOperators.end(),
                                    [&](std::string_view symbol) { return sees(symbol); });
  const std::size_t length = longest != kLongOperators.end() ? 2 : 1;
  if (length == 1 && kShortOperators.find(source_[at_]) == std::string_view::npos) {
    std::size_t end = at_;
    characters::next_code_point(source_, end);
    fail_at(here(), "unexpected character '{}'", core::printable(source_.substr(at_, end - at_)));
  }
  balance(source_[at_]);
  add(TokenKind::kOperator, here(), source_.substr(at_, length));
  advance_to(at_ + length);
}

void Lexer::balance(char bracket) {
  constexpr std::string_view kOpen = "([{";
  constexpr std::string_view kClosed = ")]}";
  if (const std::size_t open = kOpen.find(bracket); open != std::string_view::npos) {
    brackets_.push_back(kClosed[open]);
  } else if (kClosed.find(bracket) != std::string_view::npos) {
    if (brackets_.empty() || brackets_.back() != bracket) {
      fail_at(here(), "unexpected '{}'", bracket);
    }
    brackets_.pop_back();
  }
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace nibble::jinja
