#include "text/regex/regex_syntax.h"

#include <array>
#include <optional>
#include <vector>

#include "characters/utf8.h"
#include "core/error.h"

namespace nibble::text {
namespace {

// Contents of a character class for each escape, and for most complements (a class cannot be
// subtracted inside a class, so they are spelled out by general category).
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Oniguruma has a table of its own for Latin-1, whose \w has the superscripts and fractions; it is
// not used inside classes.
constexpr std::string_view kWordLatin1 = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kSpace = R"(\x{9}-\x{d}\x{85}\p{Z})";
constexpr std::string_view kNotSpace =
    R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Cn}\p{Co}\x{0}-\x{8}\x{e}-\x{1f}\x{7f}-\x{84}\x{86}-\x{9f})";
constexpr std::string_view kHex = "0-9a-fA-F";
constexpr std::string_view kNotHex = R"(\x{0}-/:-@G-`g-\x{10ffff})";

struct NamedContent {
  std::string_view name;
  std::string_view content;
};

// Properties that PCRE2 knows under another name, or that are no scripts.
constexpr std::array kProperties = {
    NamedContent{"Any", "Any"},
    NamedContent{"Alpha", "Alphabetic"},
    NamedContent{"Alphabetic", "Alphabetic"},
    NamedContent{"Lower", "Lowercase"},
    NamedContent{"Lowercase", "Lowercase"},
    NamedContent{"Upper", "Uppercase"},
    NamedContent{"Uppercase", "Uppercase"},
    NamedContent{"Digit", "Nd"},
    NamedContent{"Letter", "L"},
    NamedContent{"Uppercase_Letter", "Lu"},
    NamedContent{"Lowercase_Letter", "Ll"},
    NamedContent{"Mark", "M"},
    NamedContent{"Number", "N"},
    NamedContent{"Decimal_Number", "Nd"},
    NamedContent{"Punctuation", "P"},
    NamedContent{"Symbol", "S"},
    NamedContent{"Separator", "Z"},
    NamedContent{"Other", "C"},
};

constexpr std::array kBrackets = {
    NamedContent{"alpha", R"(\p{Alphabetic})"},
    NamedContent{"alnum", R"(\p{Alphabetic}\p{Nd})"},
    NamedContent{"digit", R"(\p{Nd})"},
    NamedContent{"lower", R"(\p{Lowercase})"},
    NamedContent{"upper", R"(\p{Uppercase})"},
    NamedContent{"space", kSpace},
    NamedContent{"word", kWord},
    NamedContent{"punct", R"(\p{P}$+<=>\^`|~)"},
    NamedContent{"xdigit", kHex},
    NamedContent{"blank", R"(\t\p{Zs})"},
    NamedContent{"cntrl", R"(\p{Cc})"},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view what) : in_(pattern), what_(what) {}

  std::string run() {
    while (!at_end()) {
      step();
    }
    return std::move(out_);
  }

 private:
  bool at_end() const { return at_ == in_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }
  bool looking_at(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  [[noreturn]] void refuse(std::string_view construct) const {
    core::fail(core::ErrorKind::kInvalidModel,
               "{}: the pattern '{}' uses {} at byte {}, not supported", what_,
               core::printable(in_), construct, at_);
  }

  void copy(std::size_t bytes) {
    bytes = std::min(bytes, in_.size() - at_);
    out_.append(in_.substr(at_, bytes));
    at_ += bytes;
  }

  void step() {
    switch (peek()) {
      case '\\':
        begin_atom();
        escape();
        return;
      case '[':
        begin_atom();
        character_class();
        return;
      case '(':
        open_group();
        return;
      case ')':
        close_group();
        return;
      case '{':
        if (interval()) {
          return;
        }
        break;
      case '*':
      case '+':
      case '?':
        copy(1);
        return;
      default:
        break;
    }
    begin_atom();
    copy(characters::utf8_bytes(peek()));
  }

  // Where a quantifier's operand starts in the output.
  void begin_atom() { atom_ = out_.size(); }

  void open_group() {
    groups_.push_back(out_.size());
    if (peek(1) == '*') {
      refuse("(*");
    }
    if (peek(1) != '?') {
      copy(1);
      return;
    }
    for (const std::string_view plain : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (looking_at(plain)) {
        copy(plain.size());
        return;
      }
    }
    if (peek(2) == '<' && is_letter(peek(3))) {
      copy(3);
      return;
    }
    options();
  }

  void options() {
    const bool at_start = out_.empty();
    std::string translated = "(?";
    std::size_t ahead = 2;
    for (; peek(ahead) == 'i' || peek(ahead) == 'm' || peek(ahead) == '-'; ++ahead) {
      translated.push_back(peek(ahead) == 'm' ? 's' : peek(ahead));
    }
    const char last = peek(ahead);
    // Elsewhere than at the start, Ruby's (?i) also swallows the alternatives that follow it.
    if (ahead == 2 || (last != ':' && (last != ')' || !at_start))) {
      refuse("this kind of group");
    }
    translated.push_back(last);
    out_ += translated;
    at_ += ahead + 1;
    if (last == ')') {
      groups_.pop_back();
    }
  }

  void close_group() {
    if (groups_.empty()) {
      refuse("a ')' without '('");
    }
    atom_ = groups_.back();
    groups_.pop_back();
    copy(1);
  }

  // "{n}", "{n,}", "{n,m}" or "{,m}"; false when the brace is literal.
  bool interval() {
    std::size_t ahead = 1;
    const auto number = [&] {
      const std::size_t begin = ahead;
      while (is_digit(peek(ahead))) {
        ++ahead;
      }
      return in_.substr(at_ + begin, ahead - begin);
    };
    const std::string_view low = number();
    const bool exact = peek(ahead) != ',';
    ahead += exact ? 0 : 1;
    const std::string_view high = exact ? low : number();
    if (peek(ahead) != '}' || (low.empty() && high.empty()) || out_.empty()) {
      return false;
    }
    at_ += ahead + 1;
    const bool own_group = peek() == '+' || (exact && peek() == '?');
    if (own_group) {
      out_.insert(atom_, "(?:");
    }
    out_.append("{").append(low.empty() ? "0" : low);
    out_.append(exact ? "" : ",").append(exact ? "" : high).append("}");
    out_.append(own_group ? ")" : "");
    return true;
  }

  void escape() {
    const char c = peek(1);
    if (c == 'w' || c == 'W') {
      out_.append(c == 'w' ? "[" : "[^").append(kWord).append(kWordLatin1).append("]");
      at_ += 2;
      return;
    }
    if (const auto content = class_escape(c)) {
      out_.append("[").append(*content).append("]");
      at_ += 2;
      return;
    }
    switch (c) {
      case 'b':
      case 'B':
        word_boundary(c == 'B');
        return;
      case 'A':
      case 'z':
      case 'Z':
      case 'R':
      case 'X':
        copy(2);
        return;
      case 'k':
        if (peek(2) != '<') {
          refuse("\\k without a name");
        }
        copy(2);
        return;
      default:
        if (c >= '1' && c <= '9') {
          copy(2);
          return;
        }
        character_escape();
    }
  }

  static std::optional<std::string_view> class_escape(char c) {
    switch (c) {
      case 'w':
        return kWord;
      case 's':
        return kSpace;
      case 'S':
        return kNotSpace;
      case 'd':
        return R"(\p{Nd})";
      case 'D':
        return R"(\P{Nd})";
      case 'h':
        return kHex;
      case 'H':
        return kNotHex;
      default:
        return std::nullopt;
    }
  }

  // Escapes that mean one character, or a property, inside and outside of classes.
  void character_escape() {
    const char c = peek(1);
    if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'u') {
      for (std::size_t i = 2; i < 6; ++i) {
        if (!is_hex_digit(peek(i))) {
          refuse("\\u without four hexadecimal digits");
        }
      }
      out_.append("\\x{").append(in_.substr(at_ + 2, 4)).append("}");
      at_ += 6;
    } else if (c == 'v') {
      out_.append("\\x{b}");
      at_ += 2;
    } else if (std::string_view("nrtfeax").find(c) != std::string_view::npos && c != '\0') {
      copy(2);
    } else if (c == '\0' || is_letter(c) || is_digit(c)) {
      refuse(c == '\0' ? std::string("a '\\' at its end") : std::string("the escape \\") + c);
    } else {
      copy(1);
      copy(characters::utf8_bytes(peek()));
    }
  }

  // General categories have the same names in both; a script needs "sc:" not to mean its
  // extensions.
  void property() {
    const std::size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos || end - at_ > 64) {
      refuse("\\p without {...}");
    }
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    bool negated = peek(1) == 'P';
    if (name.starts_with("^")) {
      name.remove_prefix(1);
      negated = !negated;
    }
    std::string_view known = name.size() <= 2 ? name : "";
    for (const NamedContent& property : kProperties) {
      known = property.name == name ? property.content : known;
    }
    out_.append(negated ? "\\P{" : "\\p{").append(known.empty() ? "sc:" : "");
    out_.append(known.empty() ? name : known).append("}");
    at_ = end + 1;
  }

  void word_boundary(bool negated) {
    const std::string word = "[" + std::string(kWord) + std::string(kWordLatin1) + "]";
    const std::string here =
        negated ? "(?:(?<=W)(?=W)|(?<!W)(?!W))" : "(?:(?<=W)(?!W)|(?<!W)(?=W))";
    for (const char c : here) {
      if (c == 'W') {
        out_.append(word);
      } else {
        out_.push_back(c);
      }
    }
    at_ += 2;
  }

  // "[...]". A \W inside is left out of the class and joined as an alternative, since there is no
  // content that means it.
  void character_class() {
    const std::size_t begin = out_.size();
    copy(1);
    const bool negated = peek() == '^';
    copy(negated ? 1 : 0);
    if (peek() == ']') {
      refuse("a ']' right after '['");
    }
    const std::size_t items = out_.size();
    bool has_not_word = false;
    while (peek() != ']') {
      if (at_end()) {
        refuse("a '[' without ']'");
      }
      if (looking_at("\\W")) {
        has_not_word = true;
        at_ += 2;
      } else {
        class_item();
      }
    }
    copy(1);
    if (has_not_word) {
      const std::string others = out_.substr(items);  // with the ']'
      out_.resize(begin);
      join_not_word(others, negated);
    }
  }

  void join_not_word(std::string_view others, bool negated) {
    const std::string word(kWord);
    if (others == "]") {
      out_.append(negated ? "[" : "[^").append(word).append("]");
    } else if (negated) {
      out_.append("(?:(?![").append(others).append(")[").append(word).append("])");
    } else {
      out_.append("(?:[").append(others).append("|[^").append(word).append("])");
    }
  }

  void class_item() {
    if (looking_at("[:")) {
      posix_bracket();
    } else if (peek() == '[') {
      refuse("a class inside a class");
    } else if (looking_at("&&")) {
      refuse("a class intersection");
    } else if (peek() != '\\') {
      copy(characters::utf8_bytes(peek()));
    } else if (const auto content = class_escape(peek(1))) {
      out_.append(*content);
      at_ += 2;
    } else {
      character_escape();
    }
  }

  void posix_bracket() {
    const std::size_t end = in_.find(":]", at_ + 2);
    const std::string_view name =
        end == std::string_view::npos ? "" : in_.substr(at_ + 2, end - at_ - 2);
    for (const NamedContent& bracket : kBrackets) {
      if (bracket.name == name) {
        out_.append(bracket.content);
        at_ = end + 2;
        return;
      }
    }
    refuse("this kind of [:...:]");
  }

  std::string_view in_;
  std::string_view what_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;             // start of the last atom in out_
  std::vector<std::size_t> groups_;  // starts of the open groups in out_
};

}  // namespace

std::string to_pcre2_syntax(std::string_view pattern, std::string_view what) {
  return Translator(pattern, what).run();
}

}  // namespace nibble::text
