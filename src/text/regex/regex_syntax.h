#pragma once

#include <string>
#include <string_view>

namespace nibble::text {

/// Rewrites a pattern of Oniguruma (its Ruby syntax, the language of `tokenizer.json`) as one of
/// PCRE2 (to be compiled with UTF, UCP and MULTILINE) that matches the same. Where the two
/// disagree:
///
///   pattern          Oniguruma, Ruby syntax              PCRE2
///   \w \s \h \v      Alphabetic M Nd Pc; Z and U+0009..D,
///                    U+0085; hexadecimal; U+000B         L N _; with U+180E; blanks; line ends
///   \b \B            follow \w                           follow PCRE2's \w
///   x{n,m}+  x{n}?   (?:x{n,m})+  (?:x{n})?              possessive, lazy
///   x{,m}            x{0,m}                              literal text
///   (?m:...)         dot matches line ends               ^ and $ match at lines
///   \p{Han}          the script                          script extensions
///   \uHHHH           a character                         not supported
///
/// Throws kInvalidModel, naming the construct, for what has no exact equivalent (nested classes,
/// class intersections, \G, \K, callouts, absent operators, free-spacing mode, ...).
std::string to_pcre2_syntax(std::string_view pattern, std::string_view what);

}  // namespace nibble::text
