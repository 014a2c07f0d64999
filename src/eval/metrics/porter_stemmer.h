#pragma once

#include <string>
#include <string_view>

namespace nibble::eval {

/// The stem of a lower-case word: M. F. Porter, "An algorithm for suffix stripping", Program 14(3),
/// 1980, in the form that NLTK's PorterStemmer has by default and the rouge-score package uses.
/// Where that form differs from the paper:
///   * some irregular words have a fixed stem ("skies" -> "sky", "dying" -> "die"), and words of at
///     most two letters are kept;
///   * 1a: four letters with -ies keep the e ("dies" -> "die"); 1b: -ied becomes -i, or -ie in four
///     letters ("spied" -> "spi", "died" -> "die");
///   * 1b: a stem of a vowel and a consonant counts as *o ("aging" -> "age");
///   * 1c: y becomes i behind a consonant that is not the first letter ("fly" -> "fli", "enjoy"
///     stays);
///   * 2: -alli is taken off first and the step begins again; -bli instead of -abli; also
///     -fulli -> -ful and -logi -> -log, the latter when m > 0 with its l.
std::string porter_stem(std::string_view word);

}  // namespace nibble::eval
