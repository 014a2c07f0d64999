#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "text/grammar/grammar.h"

namespace nibble::text {

/// How one character of some ranges is written: where text stands in quotes, some are escaped.
using AppendClass =
    std::function<void(GrammarBuilder&, GrammarSequence&, const std::vector<CodePointRange>&)>;

/// What a regular expression matches as a whole, by the syntax that JSON Schema (ECMA 262) and most
/// others share: . [] [^] () (?:) | ? * + {m,n}, \d \w \s \D \W \S (ASCII), \n \r \t \f \v \0 \xHH
/// \uHHHH \u{H} and escaped punctuation; ^ at the start and $ at the end are taken, lazy
/// quantifiers are like others. Throws kUsage for anything malformed, for what no regular language
/// has or this does not know (look-around, back references, \b, properties), and for groups nested
/// deeper than kMaxRegexDepth.
GrammarSequence regex_sequence(GrammarBuilder& builder, std::string_view expression,
                               const AppendClass& append_class);

std::shared_ptr<const Grammar> parse_regex_grammar(std::string_view expression);

inline constexpr int kMaxRegexDepth = 100;

}  // namespace nibble::text
