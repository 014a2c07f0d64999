#include "text/grammar/regex_grammar.h"

#include <algorithm>
#include <optional>

#include "characters/utf8.h"
#include "core/error.h"
#include "text/grammar/pattern_reader.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using Ranges = std::vector<CodePointRange>;

const Ranges kDigits = {{'0', '9'}};
const Ranges kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpace = {{'\t', '\r'}, {' ', ' '}};
const Ranges kLineBreaks = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class Parser final : PatternReader {
 public:
  Parser(GrammarBuilder& builder, std::string_view text, const AppendClass& append_class)
      : PatternReader(text), builder_(builder), append_class_(append_class) {}

  GrammarSequence parse() {
    core::require(characters::is_valid_utf8(text_), ErrorKind::kUsage,
                  "a regular expression is not UTF-8");
    const GrammarSequence result = alternatives(0);
    if (at_ < text_.size()) {
      fail("a ) without a (");
    }
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const override {
    core::fail(ErrorKind::kUsage, "regular expression '{}', byte {}: {}", core::printable(text_),
               at_ + 1, what);
  }
  GrammarSequence alternatives(int depth) {
    if (depth > kMaxRegexDepth) {
      fail("groups are nested too deep");
    }
    std::vector<GrammarSequence> all;
    do {
      all.push_back(sequence(depth));
    } while (take("|"));
    return builder_.any_of(all);
  }

  GrammarSequence sequence(int depth) {
    GrammarSequence result;
    while (more() && peek() != '|' && peek() != ')') {
      GrammarSequence item;
      if (take("(")) {
        if (take("?") && !take(":")) {
          fail("only (?: is known of the groups that begin with (?");
        }
        item = alternatives(depth + 1);
        if (!take(")")) {
          fail("a ( without a )");
        }
      } else if (peek() == '^') {
        if (at_ != 0) {
          fail("^ is known only at the start");
        }
        ++at_;
        continue;
      } else if (peek() == '$') {
        ++at_;
        if (more()) {
          fail("$ is known only at the end");
        }
        continue;
      } else if (take(".")) {
        append_class_(builder_, item, complement(kLineBreaks));
      } else if (take("[")) {
        append_class_(builder_, item, char_class());
      } else if (std::string_view("?*+{").find(peek()) != std::string_view::npos) {
        fail("nothing to repeat");
      } else {
        append_class_(builder_, item, character(false));
      }
      repeat(item);
      result.insert(result.end(), item.begin(), item.end());
    }
    return result;
  }

  void repeat(GrammarSequence& item) {
    if (const auto simple = repeats()) {
      item = builder_.repeated(item, simple->least, simple->most);
    } else if (take("{")) {
      const auto least = number();
      if (!least) {
        fail("expected a number of repetitions");
      }
      std::int64_t most = *least;
      if (take(",")) {
        most = number().value_or(-1);
      }
      if (!take("}")) {
        fail("expected } behind a number of repetitions");
      }
      if (most >= 0 && most < *least) {
        fail("repetitions run backwards");
      }
      item = builder_.repeated(item, *least, most);
    } else {
      return;
    }
    take("?");  // lazy or not, the texts are the same
    if (std::string_view("?*+{").find(peek()) != std::string_view::npos && more()) {
      fail("a repetition of a repetition");
    }
  }

  Ranges char_class() {
    const bool negated = take("^");
    Ranges ranges;
    while (peek() != ']' || !more()) {
      if (!more()) {
        fail("a [ without a ]");
      }
      Ranges first = character(true);
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        const Ranges last = character(true);
        if (!is_one(first) || !is_one(last) || last.front().low < first.front().low) {
          fail("a range of characters that is none");
        }
        first = {{first.front().low, last.front().low}};
      }
      ranges.insert(ranges.end(), first.begin(), first.end());
    }
    ++at_;
    ranges = complement(std::move(ranges));
    if (!negated) {
      ranges = complement(std::move(ranges));
    }
    if (ranges.empty()) {
      fail("a class without characters");
    }
    return ranges;
  }

  static bool is_one(const Ranges& ranges) {
    return ranges.size() == 1 && ranges.front().low == ranges.front().high;
  }

  // A character, or a class of them behind a backslash.
  Ranges character(bool in_class) {
    if (!take("\\")) {
      const characters::CodePoint point = characters::decode_utf8(text_, at_);
      at_ += point.bytes;
      return {{point.value, point.value}};
    }
    if (!more()) {
      fail("a \\ at the end");
    }
    const char c = text_[at_++];
    const auto one = [](std::uint32_t point) { return Ranges{{point, point}}; };
    switch (c) {
      case 'd':
        return kDigits;
      case 'w':
        return kWord;
      case 's':
        return kSpace;
      case 'D':
        return complement(kDigits);
      case 'W':
        return complement(kWord);
      case 'S':
        return complement(kSpace);
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one(0);
      case 'x':
        return one(hex(2));
      case 'u':
        return one(take("{") ? braced_hex() : hex(4));
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || static_cast<unsigned char>(c) >= 0x80) {
      --at_;
      fail(in_class && c == 'b' ? "\\b is not known in classes" : "an escape that is not known");
    }
    return one(static_cast<unsigned char>(c));
  }

  std::uint32_t braced_hex() {
    std::uint32_t value = 0;
    do {
      value = checked(value * 16 + hex_digit());
    } while (!take("}"));
    return value;
  }

  GrammarBuilder& builder_;
  const AppendClass& append_class_;
};

}  // namespace

GrammarSequence regex_sequence(GrammarBuilder& builder, std::string_view expression,
                               const AppendClass& append_class) {
  return Parser(builder, expression, append_class).parse();
}

std::shared_ptr<const Grammar> parse_regex_grammar(std::string_view expression) {
  GrammarBuilder builder;
  const std::int32_t root = builder.add_rule("root");
  builder.add_alternative(
      root, regex_sequence(builder, expression,
                           [](GrammarBuilder& to, GrammarSequence& sequence, const Ranges& ranges) {
                             to.append_class(sequence, ranges);
                           }));
  return std::make_shared<const Grammar>(builder.build(root));
}

}  // namespace nibble::text
