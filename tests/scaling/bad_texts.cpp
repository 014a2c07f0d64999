#include "scaling/scaling_case.h"

namespace nibble::scaling {

const std::vector<TextKind>& bad_texts() {
  static const std::vector<TextKind> texts = {
      {"marks in wrong order", [](std::size_t n) { return "a" + repeated("\u0301\u0323", n); }},
      {"voiced marks", [](std::size_t n) { return "a" + repeated("\uff9e\u0301", n); }},
      {"marks that are two", [](std::size_t n) { return "a" + repeated("\u0f73\u0344", n); }},
      {"vowels of Hangul", [](std::size_t n) { return "\u1100" + repeated("\u1161\u11a8", n); }},
      {"letters with marks", [](std::size_t n) { return repeated("\u1ead\u0323\u0301", n); }},
      {"long compositions", [](std::size_t n) { return repeated("\ufdfa", n); }},
      {"one letter", [](std::size_t n) { return repeated("a", n); }},
      {"capitals", [](std::size_t n) { return repeated("A", n); }},
      {"capitals and small letters", [](std::size_t n) { return repeated("aB", n); }},
      {"digits", [](std::size_t n) { return repeated("1", n); }},
      {"signs", [](std::size_t n) { return repeated("!", n); }},
      {"emoji", [](std::size_t n) { return repeated("\U0001f468\u200d", n); }},
      {"flags", [](std::size_t n) { return repeated("\U0001f1e6", n); }},
      {"ideographs", [](std::size_t n) { return repeated("\u6f22", n); }},
      {"spaces", [](std::size_t n) { return repeated(" ", n); }},
      {"spaces and a letter", [](std::size_t n) { return repeated(" ", n) + "a"; }},
      {"visible spaces", [](std::size_t n) { return repeated("\u2581", n); }},
      {"line breaks", [](std::size_t n) { return repeated("\n", n); }},
      {"indented line breaks", [](std::size_t n) { return repeated("\n \t", n); }},
      {"short words", [](std::size_t n) { return repeated("a ", n); }},
      {"different words", [](std::size_t n) { return different_words(n, " "); }},
      {"words of one hash",
       [](std::size_t n) {
         std::string text;
         for (const std::string& word : texts_of_one_hash(n / 17)) {
           text += word + " ";
         }
         return text;
       }},
      {"contractions", [](std::size_t n) { return repeated("'s", n); }},
      {"control tokens", [](std::size_t n) { return repeated("<s>", n); }},
      {"starts of control tokens", [](std::size_t n) { return repeated("<|im_star", n); }},
      {"bytes that are no text", [](std::size_t n) { return repeated("\xe2\x82", n); }},
      {"zeros", [](std::size_t n) { return std::string(n, '\0'); }},
  };
  return texts;
}

}  // namespace nibble::scaling
