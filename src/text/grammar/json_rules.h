#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "text/grammar/grammar.h"

namespace nibble::text {

inline void append(GrammarSequence& to, const GrammarSequence& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// A character of some ranges as it stands in a JSON string: escaped where it must be.
void append_json_class(GrammarBuilder& builder, GrammarSequence& sequence,
                       const std::vector<CodePointRange>& ranges);

/// The parts that JSON texts (RFC 8259) are made of. Between parts stands at most a space, or a
/// line break with up to 20 blanks.
class JsonRules {
 public:
  explicit JsonRules(GrammarBuilder& builder) : builder_(builder) {}

  GrammarSequence value();
  GrammarSequence any_object();
  GrammarSequence boolean();
  GrammarSequence null();
  GrammarSequence integer();
  GrammarSequence number();
  /// One character of a string, perhaps escaped.
  GrammarSequence character();
  GrammarSequence string();
  /// A string that is none of the names.
  GrammarSequence name_but(const std::vector<std::string>& names);
  /// A colon with room around it.
  GrammarSequence colon();
  /// A value as it is written in one line.
  GrammarSequence literal(const nlohmann::ordered_json& value);

  /// From `least` to `most` items (most < 0: any number) with commas between them: first those of
  /// `front`, each where it is reached, then `item` again and again.
  GrammarSequence list(char open, char close, const std::vector<GrammarSequence>& front,
                       const GrammarSequence& item, std::int64_t least, std::int64_t most);

  /// A name, a colon and a value.
  struct Member {
    GrammarSequence text;
    bool required = false;
  };
  /// An object of the members in their order, and any number of `other` behind them, if it is not
  /// empty.
  GrammarSequence object(const std::vector<Member>& members, const GrammarSequence& other);

 private:
  GrammarSequence once(std::optional<std::int32_t>& rule, GrammarSequence (JsonRules::*make)());
  GrammarSequence space();
  GrammarSequence comma();
  GrammarSequence make_value();
  GrammarSequence make_any_object();
  GrammarSequence make_number();
  GrammarSequence make_character();
  GrammarSequence make_space();
  struct NameBranch;
  GrammarSequence behind(const NameBranch& branch, const GrammarSequence& rest);

  GrammarBuilder& builder_;
  std::optional<std::int32_t> value_;
  std::optional<std::int32_t> any_object_;
  std::optional<std::int32_t> number_;
  std::optional<std::int32_t> character_;
  std::optional<std::int32_t> space_;
};

}  // namespace nibble::text
