#include "cli/shell_words.h"

#include <algorithm>
#include <string_view>

namespace nibble::cli {
namespace {

// Letters, digits and signs that mean nothing to a shell stay; everything else is quoted.
std::string in_quotes(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./,:=+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) {
    return std::string(word);
  }
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return text + "'";
}

}  // namespace

std::string shell_command(std::span<const std::string> words) {
  std::string command;
  for (const std::string& word : words) {
    command += (command.empty() ? "" : " ") + in_quotes(word);
  }
  return command;
}

}  // namespace nibble::cli
