#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::eval {

/// ROUGE (C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004) with the
/// results of Google's rouge-score package 0.1.2, which Hugging Face's `evaluate` uses too.

struct RougeScore {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

struct RougeOptions {
  bool stem = false;  // compare Porter stems of words of more than three letters
};

/// Words as rouge-score sees them: lower case, runs of a-z and 0-9.
std::vector<std::string> rouge_words(std::string_view text, RougeOptions options = {});

/// Runs of n >= 1 words in common.
RougeScore rouge_n(std::string_view target, std::string_view prediction, int n,
                   RougeOptions options = {});

/// Longest common subsequence of words of the whole texts.
RougeScore rouge_l(std::string_view target, std::string_view prediction, RougeOptions options = {});

/// Union of longest common subsequences of sentences, which are lines (ROUGE-Lsum).
RougeScore rouge_lsum(std::string_view target, std::string_view prediction,
                      RougeOptions options = {});

}  // namespace nibble::eval
