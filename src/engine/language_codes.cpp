#include "engine/language_codes.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/printable.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using text::Tokenizer;

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_letter(char c) {
  return is_lower(c) || (c >= 'A' && c <= 'Z');
}

// "en_XX", "zho_Hans".
bool looks_like_code(std::string_view token) {
  const std::size_t line = token.find('_');
  if (line != 2 && line != 3) {
    return false;
  }
  const std::string_view language = token.substr(0, line);
  const std::string_view region = token.substr(line + 1);
  return region.size() >= 2 && std::all_of(language.begin(), language.end(), is_lower) &&
         std::all_of(region.begin(), region.end(), is_letter) && !is_lower(region.front());
}

bool is_language(const Tokenizer& tokenizer, std::int32_t id) {
  return tokenizer.is_special(id) && looks_like_code(tokenizer.piece(id));
}

std::vector<std::string> languages(const Tokenizer& tokenizer) {
  std::vector<std::string> codes;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (is_language(tokenizer, id)) {
      codes.push_back(tokenizer.piece(id));
    }
  }
  return codes;
}

}  // namespace

std::int32_t language_token(const Tokenizer& tokenizer, std::string_view code) {
  const auto id = tokenizer.id_of(code);
  if (!id || !is_language(tokenizer, *id)) {
    const std::vector<std::string> known = languages(tokenizer);
    core::require(!known.empty(), ErrorKind::kUsage,
                  "the model's tokenizer has no codes of languages; leave {} out",
                  core::printable(code));
    core::fail(ErrorKind::kUsage, "the model's tokenizer has no language '{}'; it has {}",
               core::printable(code), fmt::join(known, ", "));
  }
  return *id;
}

void set_source_language(text::ModelInput& input, const Tokenizer& tokenizer,
                         std::string_view code) {
  const std::int32_t token = language_token(tokenizer, code);
  bool found = false;
  for (std::size_t i = 0; i < input.ids.size(); ++i) {
    if (input.framing[i] && is_language(tokenizer, input.ids[i])) {
      input.ids[i] = token;
      found = true;
    }
  }
  core::require(
      found, ErrorKind::kUsage,
      "the model's tokenizer puts no language around texts; leave the source language out");
}

void set_target_language(WritingOptions& options, const Tokenizer& tokenizer,
                         std::string_view code) {
  const std::int32_t token = language_token(tokenizer, code);
  if (is_language(tokenizer, options.start)) {
    options.start = token;
  } else {
    options.forced_first = token;
  }
}

}  // namespace nibble::engine
