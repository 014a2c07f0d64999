#include "capi/inputs.h"

#include "characters/utf8.h"
#include "core/error.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;

void require_utf8(std::string_view text, const char* what) {
  try {
    characters::require_utf8(text, what);
  } catch (const core::Error& error) {
    throw core::Error(ErrorKind::kUsage, error.what());
  }
}

}  // namespace

std::span<const nibble_input> inputs_of(const nibble_input* inputs, std::size_t count,
                                        const char* what) {
  core::require(inputs != nullptr || count == 0, ErrorKind::kUsage,
                "the argument '{}' is NULL, and {} were said", what, count);
  const std::span<const nibble_input> all(inputs, count);
  for (const nibble_input& input : all) {
    core::require(input.text != nullptr || input.ids != nullptr, ErrorKind::kUsage,
                  "number {} of '{}' has neither a text nor ids", &input - inputs, what);
    if (!has_ids(input)) {
      require_utf8(text_of(input), what);
    }
  }
  return all;
}

std::string_view text_of(const nibble_input& input) {
  return {input.text, input.bytes};
}

std::span<const std::int32_t> ids_of(const nibble_input& input) {
  return {input.ids, input.count};
}

std::vector<std::int32_t> tokens_of(const nibble_model& model, const nibble_input& input) {
  if (has_ids(input)) {
    return {input.ids, input.ids + input.count};
  }
  return model.model().tokenizer->encode(text_of(input), {.add_special = true});
}

std::string_view require_text(const nibble_input& input, const char* what) {
  core::require(!has_ids(input), ErrorKind::kUsage, "{} takes texts, not ids", what);
  return text_of(input);
}

std::string_view required_text(const char* text, const char* what) {
  require_given(text, what);
  return required_text(text, std::string_view(text).size(), what);
}

std::string_view required_text(const char* text, std::size_t bytes, const char* what) {
  require_given(text, what);
  const std::string_view given(text, bytes);
  require_utf8(given, what);
  return given;
}

}  // namespace nibble::capi
