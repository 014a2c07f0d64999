#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Inputs that are as bad as they can be for one path of the program, in any size.
namespace nibble::scaling {

/// Does the work of one case once; what it works on is made before. A refusal of the input is an
/// answer like any other.
using Work = std::function<void()>;

struct Case {
  std::string name;  // "normalize NFC: marks in wrong order"
  std::function<Work(std::size_t size)> prepare;
  std::size_t most = std::size_t{1} << 20;  // the largest size that is tried
};

using Cases = std::vector<Case>;

/// A text of about `bytes` bytes.
struct TextKind {
  std::string_view name;
  std::string (*make)(std::size_t bytes);
};

/// Texts that make tokenizers look far, sort much or remember much.
const std::vector<TextKind>& bad_texts();

std::string repeated(std::string_view unit, std::size_t bytes);
/// Different words of letters with `separator` behind each.
std::string different_words(std::size_t bytes, std::string_view separator);
/// `count` different texts of 16 letters and signs with the same std::hash.
std::vector<std::string> texts_of_one_hash(std::size_t count);

void add_tokenizer_cases(Cases& cases);
void add_chat_cases(Cases& cases);
void add_grammar_cases(Cases& cases);
void add_file_cases(Cases& cases);
void add_request_cases(Cases& cases);

}  // namespace nibble::scaling
