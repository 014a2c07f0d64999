#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Context-free grammars over the bytes of UTF-8 text, which constrain what a model writes.
namespace nibble::text {

/// One step of an alternative: a byte of a range, or a whole rule. An alternative ends with kEnd.
struct GrammarElement {
  enum class Kind : std::uint8_t { kBytes, kRule, kEnd };
  Kind kind = Kind::kEnd;
  std::uint8_t low = 0;  // kBytes: [low, high]
  std::uint8_t high = 0;
  std::int32_t rule = 0;  // kRule

  static GrammarElement bytes(std::uint8_t low, std::uint8_t high) {
    return {Kind::kBytes, low, high, 0};
  }
  static GrammarElement of_rule(std::int32_t rule) { return {Kind::kRule, 0, 0, rule}; }
};

using GrammarSequence = std::vector<GrammarElement>;  // without kEnd

/// An immutable grammar without left recursion.
class Grammar {
 public:
  /// Elements of all alternatives, one after the other.
  const GrammarElement& element(std::int32_t at) const {
    return elements_[static_cast<std::size_t>(at)];
  }
  /// Where the alternatives of a rule begin.
  const std::vector<std::int32_t>& alternatives(std::int32_t rule) const {
    return rules_[static_cast<std::size_t>(rule)];
  }
  std::int32_t root() const { return root_; }

  /// Bytes of one class are alike: every element takes all of them or none.
  std::uint8_t byte_class(std::uint8_t byte) const { return byte_class_[byte]; }
  std::size_t byte_classes() const { return byte_classes_; }

 private:
  friend class GrammarBuilder;
  void find_byte_classes();

  std::vector<GrammarElement> elements_;
  std::vector<std::vector<std::int32_t>> rules_;
  std::int32_t root_ = 0;
  std::array<std::uint8_t, 256> byte_class_ = {};
  std::size_t byte_classes_ = 1;
};

/// Code points [low, high].
struct CodePointRange {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

inline constexpr std::uint32_t kLastCodePoint = 0x10ffff;

/// Sorted ranges without overlap of all code points but those of `ranges`.
std::vector<CodePointRange> complement(std::vector<CodePointRange> ranges);

/// Puts a grammar together, rule by rule.
class GrammarBuilder {
 public:
  /// What a grammar may have at the most, in all: a schema of a few lines may ask for billions.
  static constexpr std::size_t kMaxElements = 200'000;

  /// A new rule; `name` is for messages, and may be empty.
  std::int32_t add_rule(std::string name = {});
  /// Throws kUsage when the grammar becomes larger than kMaxElements.
  void add_alternative(std::int32_t rule, const GrammarSequence& sequence);

  /// The bytes of a text.
  static void append_text(GrammarSequence& sequence, std::string_view text);
  /// One code point of any of the ranges. Surrogates are no code points of UTF-8.
  void append_class(GrammarSequence& sequence, const std::vector<CodePointRange>& ranges);
  /// `sequence` from `least` to `most` times; most < 0: without end. Throws kUsage for more than
  /// kMaxRepeats.
  static constexpr std::int64_t kMaxRepeats = 2000;
  GrammarSequence repeated(const GrammarSequence& sequence, std::int64_t least, std::int64_t most);
  /// Any of the sequences.
  GrammarSequence any_of(const std::vector<GrammarSequence>& sequences);

  /// The grammar. Throws kUsage, naming the rule, for one without alternatives and for left
  /// recursion, which would never read a byte.
  Grammar build(std::int32_t root) const;

 private:
  /// A rule that another can begin with.
  struct FirstRule {
    std::size_t rule;
    bool last;  // of its alternative
  };

  void add_elements(std::size_t count);
  void check_left_recursion() const;
  std::vector<std::vector<FirstRule>> first_rules() const;
  std::vector<bool> rules_that_can_be_empty() const;
  std::string name_of(std::size_t rule) const;

  struct Rule {
    std::string name;
    std::vector<GrammarSequence> alternatives;
  };
  std::vector<Rule> rules_;
  std::size_t elements_ = 0;
};

}  // namespace nibble::text
