#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "capi/model_handle.h"

namespace nibble::capi {

/// The inputs of a call. Throws kUsage for null with a count above 0, and for an input without a
/// text and without ids.
std::span<const nibble_input> inputs_of(const nibble_input* inputs, std::size_t count,
                                        const char* what);

inline bool has_ids(const nibble_input& input) {
  return input.ids != nullptr;
}
std::string_view text_of(const nibble_input& input);
std::span<const std::int32_t> ids_of(const nibble_input& input);

/// The ids as they are, or those of the text with the tokens that the model expects around it.
std::vector<std::int32_t> tokens_of(const nibble_model& model, const nibble_input& input);

/// The text of an input. Throws kUsage for ids: `what` names who takes none.
std::string_view require_text(const nibble_input& input, const char* what);

/// A text that a caller ended by a zero. Throws kUsage for null and, where it must be UTF-8, for
/// what is not.
std::string_view required_text(const char* text, const char* what);
/// The same of a text of so many bytes.
std::string_view required_text(const char* text, std::size_t bytes, const char* what);

}  // namespace nibble::capi
