#include "eval/metrics/porter_stemmer.h"

#include <array>
#include <span>
#include <utility>
#include <vector>

namespace nibble::eval {
namespace {

struct Rule {
  std::string_view suffix;
  std::string_view replacement;
};

constexpr auto kIrregular = std::to_array<Rule>({{"sky", "sky"},
                                                 {"skies", "sky"},
                                                 {"dying", "die"},
                                                 {"lying", "lie"},
                                                 {"tying", "tie"},
                                                 {"news", "news"},
                                                 {"innings", "inning"},
                                                 {"inning", "inning"},
                                                 {"outings", "outing"},
                                                 {"outing", "outing"},
                                                 {"cannings", "canning"},
                                                 {"canning", "canning"},
                                                 {"howe", "howe"},
                                                 {"proceed", "proceed"},
                                                 {"exceed", "exceed"},
                                                 {"succeed", "succeed"}});

constexpr auto kStep1a =
    std::to_array<Rule>({{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}});

constexpr auto kStep2 = std::to_array<Rule>(
    {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
     {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
     {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
     {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
     {"fulli", "ful"}});

constexpr auto kStep3 = std::to_array<Rule>({{"icate", "ic"},
                                             {"ative", ""},
                                             {"alize", "al"},
                                             {"iciti", "ic"},
                                             {"ical", "ic"},
                                             {"ful", ""},
                                             {"ness", ""}});

constexpr auto kStep4 = std::to_array<Rule>({{"al", ""},
                                             {"ance", ""},
                                             {"ence", ""},
                                             {"er", ""},
                                             {"ic", ""},
                                             {"able", ""},
                                             {"ible", ""},
                                             {"ant", ""},
                                             {"ement", ""},
                                             {"ment", ""},
                                             {"ent", ""},
                                             {"ion", ""},
                                             {"ou", ""},
                                             {"ism", ""},
                                             {"ate", ""},
                                             {"iti", ""},
                                             {"ous", ""},
                                             {"ive", ""},
                                             {"ize", ""}});

std::string_view without(std::string_view word, std::size_t letters) {
  return word.substr(0, word.size() - letters);
}

// For each letter whether it is a consonant: not a, e, i, o, u, and not y behind a consonant.
std::vector<bool> consonants(std::string_view word) {
  std::vector<bool> flags;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool vowel = std::string_view("aeiou").find(word[i]) != std::string_view::npos;
    flags.push_back(!vowel && (word[i] != 'y' || i == 0 || !flags[i - 1]));
  }
  return flags;
}

// m: how often a consonant follows a vowel.
int measure(std::string_view stem) {
  const std::vector<bool> flags = consonants(stem);
  int count = 0;
  for (std::size_t i = 1; i < flags.size(); ++i) {
    count += !flags[i - 1] && flags[i] ? 1 : 0;
  }
  return count;
}

// *v*
bool contains_vowel(std::string_view stem) {
  for (const bool consonant : consonants(stem)) {
    if (!consonant) {
      return true;
    }
  }
  return false;
}

// *d
bool ends_in_double_consonant(std::string_view word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && consonants(word).back();
}

// *o: consonant, vowel, consonant that is not w, x or y; or a vowel and a consonant alone.
bool ends_in_short_syllable(std::string_view word) {
  const std::vector<bool> flags = consonants(word);
  const std::size_t n = word.size();
  if (n == 2) {
    return !flags[0] && flags[1];
  }
  return n >= 3 && flags[n - 3] && !flags[n - 2] && flags[n - 1] &&
         std::string_view("wxy").find(word[n - 1]) == std::string_view::npos;
}

// The first rule whose suffix the word has; it replaces if what is left has at least `least` as m.
std::string apply(std::string_view word, std::span<const Rule> rules, int least) {
  for (const Rule& rule : rules) {
    if (word.ends_with(rule.suffix)) {
      const std::string_view stem = without(word, rule.suffix.size());
      return std::string(measure(stem) >= least ? stem : word) +
             std::string(measure(stem) >= least ? rule.replacement : "");
    }
  }
  return std::string(word);
}

std::string step_1a(std::string_view word) {
  if (word.size() == 4 && word.ends_with("ies")) {
    return std::string(without(word, 1));
  }
  return apply(word, kStep1a, 0);
}

// What follows when -ed or -ing is taken off in step 1b.
std::string mend_1b(std::string_view stem) {
  if (stem.ends_with("at") || stem.ends_with("bl") || stem.ends_with("iz")) {
    return std::string(stem) + "e";
  }
  if (ends_in_double_consonant(stem)) {
    const bool keeps = std::string_view("lsz").find(stem.back()) != std::string_view::npos;
    return std::string(without(stem, keeps ? 0 : 1));
  }
  return std::string(stem) + (measure(stem) == 1 && ends_in_short_syllable(stem) ? "e" : "");
}

std::string step_1b(std::string_view word) {
  if (word.ends_with("ied")) {
    return std::string(without(word, word.size() == 4 ? 1 : 2));
  }
  if (word.ends_with("eed")) {
    return std::string(without(word, measure(without(word, 3)) > 0 ? 1 : 0));
  }
  for (const std::string_view suffix : {"ed", "ing"}) {
    if (word.ends_with(suffix) && contains_vowel(without(word, suffix.size()))) {
      return mend_1b(without(word, suffix.size()));
    }
  }
  return std::string(word);
}

std::string step_1c(std::string_view word) {
  const bool replaces =
      word.size() > 2 && word.back() == 'y' && consonants(without(word, 1)).back();
  return replaces ? std::string(without(word, 1)) + "i" : std::string(word);
}

std::string step_2(std::string_view word) {
  if (word.ends_with("alli") && measure(without(word, 4)) > 0) {
    return step_2(without(word, 2));
  }
  if (word.ends_with("logi")) {
    return std::string(without(word, measure(without(word, 3)) > 0 ? 1 : 0));
  }
  return apply(word, kStep2, 1);
}

std::string step_4(std::string_view word) {
  if (word.ends_with("ion")) {
    const std::string_view stem = without(word, 3);
    const bool fits = stem.ends_with('s') || stem.ends_with('t');
    return std::string(fits && measure(stem) > 1 ? stem : word);
  }
  return apply(word, kStep4, 2);
}

std::string step_5(std::string_view word) {
  if (word.ends_with('e')) {
    const std::string_view stem = without(word, 1);
    const int m = measure(stem);
    word = m > 1 || (m == 1 && !ends_in_short_syllable(stem)) ? stem : word;
  }
  if (word.ends_with("ll") && measure(without(word, 1)) > 1) {
    word = without(word, 1);
  }
  return std::string(word);
}

}  // namespace

std::string porter_stem(std::string_view word) {
  for (const auto& [form, stem] : kIrregular) {
    if (word == form) {
      return std::string(stem);
    }
  }
  if (word.size() <= 2) {
    return std::string(word);
  }
  return step_5(step_4(apply(step_2(step_1c(step_1b(step_1a(word)))), kStep3, 1)));
}

}  // namespace nibble::eval
