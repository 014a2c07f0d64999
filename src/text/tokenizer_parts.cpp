#include "text/tokenizer_parts.h"

#include <algorithm>

namespace nibble::text {

std::int64_t TokenizerParts::vocab_size() const {
  return std::max(model->tokens().size(), added.end_id());
}

std::optional<std::int32_t> TokenizerParts::id_of(std::string_view token) const {
  const auto id = added.id_of(token);
  return id ? id : model->tokens().id_of(token);
}

std::optional<std::string_view> TokenizerParts::decoder_input(std::int32_t id) const {
  if (added.find(id) != nullptr) {
    return added.decoder_input(id);
  }
  return model->tokens().has(id) ? std::optional(model->tokens().token(id)) : std::nullopt;
}

bool TokenizerParts::is_special(std::int32_t id) const {
  const AddedToken* token = added.find(id);
  return token != nullptr && token->special;
}

}  // namespace nibble::text
