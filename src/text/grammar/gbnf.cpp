#include "text/grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "characters/utf8.h"
#include "core/error.h"
#include "text/grammar/pattern_reader.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class Parser final : PatternReader {
 public:
  explicit Parser(std::string_view text) : PatternReader(text) {}

  Grammar parse() {
    core::require(characters::is_valid_utf8(text_), ErrorKind::kUsage, "the grammar is not UTF-8");
    skip(true);
    while (at_ < text_.size()) {
      parse_rule();
      skip(true);
    }
    const auto root = names_.find("root");
    core::require(root != names_.end() && root->second.defined, ErrorKind::kUsage,
                  "the grammar has no rule 'root'");
    for (const auto& [name, rule] : names_) {
      core::require(rule.defined, ErrorKind::kUsage,
                    "the grammar uses the rule '{}' (line {}) but does not define it",
                    core::printable(name),
                    core::lazily([this, at = rule.at] { return std::to_string(line_of(at)); }));
    }
    return builder_.build(root->second.number);
  }

 private:
  struct Rule {
    std::int32_t number = 0;
    bool defined = false;
    std::size_t at = 0;  // where it stands first
  };

  // Lines and columns are counted only when something is wrong.
  int line_of(std::size_t at) const {
    const std::string_view before = text_.substr(0, at);
    return 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  }

  [[noreturn]] void fail(std::string_view what) const override {
    const std::string_view before = text_.substr(0, at_);
    const std::size_t break_before = before.rfind('\n');
    const std::size_t line_start = break_before == std::string_view::npos ? 0 : break_before + 1;
    core::fail(ErrorKind::kUsage, "grammar, line {}, column {}: {}", line_of(at_),
               at_ - line_start + 1, what);
  }

  // Blanks and comments; line breaks where they mean nothing.
  void skip(bool breaks) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') {
          ++at_;
        }
      } else if (c == ' ' || c == '\t' || c == '\r' || (breaks && c == '\n')) {
        ++at_;
      } else {
        break;
      }
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    while (is_name(peek())) {
      ++at_;
    }
    if (begin == at_) {
      fail("expected the name of a rule");
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  Rule& rule_of(const std::string& name) {
    const auto [at, is_new] = names_.try_emplace(name);
    if (is_new) {
      at->second.number = builder_.add_rule(name);
      at->second.at = at_;
    }
    return at->second;
  }

  void parse_rule() {
    const std::size_t begin = at_;
    const std::string rule_name = name();
    Rule& rule = rule_of(rule_name);
    if (rule.defined) {
      at_ = begin;
      fail(fmt::format("the rule '{}' is defined twice", rule_name));
    }
    rule.defined = true;
    const std::int32_t number = rule.number;
    skip(false);
    if (!take("::=")) {
      fail("expected ::= behind the name of a rule");
    }
    skip(true);
    for (const GrammarSequence& sequence : alternatives(0)) {
      builder_.add_alternative(number, sequence);
    }
    skip(false);
    if (at_ < text_.size() && peek() != '\n') {
      fail("expected the end of the line, |, or something to read");
    }
  }

  std::vector<GrammarSequence> alternatives(int depth) {
    if (depth > kMaxGbnfDepth) {
      fail("groups are nested too deep");
    }
    std::vector<GrammarSequence> all;
    do {
      skip(true);
      all.push_back(sequence(depth));
      skip(depth > 0);
    } while (take("|"));
    return all;
  }

  GrammarSequence sequence(int depth) {
    GrammarSequence result;
    while (true) {
      skip(depth > 0);
      GrammarSequence item;
      const char c = peek();
      if (c == '"') {
        ++at_;
        GrammarBuilder::append_text(item, literal());
      } else if (c == '[') {
        ++at_;
        char_class(item);
      } else if (c == '.') {
        ++at_;
        builder_.append_class(item, complement({{'\n', '\n'}, {'\r', '\r'}}));
      } else if (c == '(') {
        ++at_;
        item = builder_.any_of(alternatives(depth + 1));
        skip(true);
        if (!take(")")) {
          fail("expected )");
        }
      } else if (is_name(c) && !begins_rule()) {
        item = {GrammarElement::of_rule(rule_of(name()).number)};
      } else {
        return result;
      }
      repeat(item);
      result.insert(result.end(), item.begin(), item.end());
    }
  }

  // Whether a name that comes next is that of the next rule.
  bool begins_rule() {
    const std::size_t begin = at_;
    name();
    skip(false);
    const bool begins = text_.substr(at_).starts_with("::=");
    at_ = begin;
    return begins;
  }

  void repeat(GrammarSequence& item) {
    if (const auto simple = repeats()) {
      item = builder_.repeated(item, simple->least, simple->most);
    } else if (take("{")) {
      const auto least = spaced_number();
      std::int64_t most = least.value_or(0);
      if (take(",")) {
        most = spaced_number().value_or(-1);
      } else if (!least) {
        fail("expected a number of repetitions");
      }
      if (!take("}")) {
        fail("expected } behind a number of repetitions");
      }
      item = builder_.repeated(item, least.value_or(0), most);
    }
  }

  std::optional<std::int64_t> spaced_number() {
    skip(false);
    const auto value = number();
    skip(false);
    return value;
  }

  std::string literal() {
    std::string result;
    while (peek() != '"') {
      if (at_ >= text_.size() || peek() == '\n') {
        fail("expected \" at the end of a text");
      }
      characters::append_utf8(result, static_cast<char32_t>(code_point()));
    }
    ++at_;
    return result;
  }

  void char_class(GrammarSequence& item) {
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    while (peek() != ']') {
      if (at_ >= text_.size() || peek() == '\n') {
        fail("expected ] at the end of a class of characters");
      }
      const std::uint32_t low = code_point();
      std::uint32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        high = code_point();
      }
      if (high < low) {
        fail("a range of characters runs backwards");
      }
      ranges.push_back({low, high});
    }
    ++at_;
    if (negated) {
      ranges = complement(std::move(ranges));
    } else {
      ranges = complement(complement(std::move(ranges)));  // each character once
    }
    if (ranges.empty()) {
      fail("a class without characters");
    }
    builder_.append_class(item, ranges);
  }

  // One character, perhaps escaped.
  std::uint32_t code_point() {
    if (peek() == '\\') {
      ++at_;
      const char c = peek();
      ++at_;
      switch (c) {
        case 'n':
          return '\n';
        case 'r':
          return '\r';
        case 't':
          return '\t';
        case 'x':
          return hex(2);
        case 'u':
          return hex(4);
        case 'U':
          return hex(8);
        case '\\':
        case '"':
        case '[':
        case ']':
        case '-':
        case '^':
          return static_cast<std::uint32_t>(c);
        default:
          at_ -= 2;
          fail("an escape that is not known");
      }
    }
    const characters::CodePoint point = characters::decode_utf8(text_, at_);
    at_ += point.bytes;
    return point.value;
  }

  GrammarBuilder builder_;
  std::map<std::string, Rule> names_;
};

}  // namespace

std::shared_ptr<const Grammar> parse_gbnf(std::string_view text) {
  return std::make_shared<const Grammar>(Parser(text).parse());
}

}  // namespace nibble::text
