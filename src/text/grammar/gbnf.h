#pragma once

#include <memory>
#include <string_view>

#include "text/grammar/grammar.h"

namespace nibble::text {

/// Reads a grammar in GBNF, the notation of llama.cpp:
///
///   root   ::= "yes" | "no" [ \t]* item{1,3}   # rules are `name ::= alternatives`; starts at root
///   item   ::= [a-z0-9_] ([^"\\] | "\\" .)+    # classes, groups, ? * + {m} {m,} {m,n}, . is any
///                                              # character but a line break
///
/// Escapes: \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH (code points). An alternative goes on over
/// line breaks inside of parentheses and behind a |. Throws kUsage with line and column for
/// anything malformed, nested deeper than kMaxGbnfDepth, or without a rule `root`.
std::shared_ptr<const Grammar> parse_gbnf(std::string_view text);

inline constexpr int kMaxGbnfDepth = 200;

}  // namespace nibble::text
