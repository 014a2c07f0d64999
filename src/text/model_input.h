#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace nibble::text {

/// A text, or a pair of texts, as an encoder takes it.
struct ModelInput {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;  // token types (segments), one for each id
  std::vector<bool> framing;        // whether an id was put around the texts, of each
  bool truncated = false;           // tokens were left out
};

struct ModelInputOptions {
  std::int64_t most_tokens = 0;  // of the whole input; 0: any number
  bool add_special = true;       // with the tokens that the tokenizer puts around texts
};

/// The ids and token types of a text or a pair, as Hugging Face's tokenizers make them with the
/// post-processors BertProcessing, RobertaProcessing and TemplateProcessing. What is longer than
/// `most_tokens` is cut as by their truncation "longest_first": tokens go from the end (from the
/// beginning, where tokenizer_config.json says truncation_side "left") of the longer text, and of
/// both when they are equally long. Throws as Tokenizer::encode; kUsage when `most_tokens` leaves
/// no room for a text; kInvalidModel when the tokenizer frames pairs in a way that is not
/// supported.
ModelInput encode_for_model(const Tokenizer& tokenizer, std::string_view text,
                            std::optional<std::string_view> pair,
                            const ModelInputOptions& options = {});

/// The longest input that tokenizer_config.json allows (model_max_length); nothing where it does
/// not say.
std::optional<std::int64_t> longest_input(const Tokenizer& tokenizer);

}  // namespace nibble::text
