#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/encoder.h"
#include "text/model_input.h"

namespace nibble::engine {

/// A text, or a pair of texts.
struct InputText {
  std::string_view first;
  std::optional<std::string_view> second;
};

/// How texts become inputs of an encoder.
struct InputOptions {
  std::int64_t most_tokens = 0;      // of one input
  bool truncate = true;              // longer ones are cut; else they are refused
  bool token_types = true;           // the model has them; else it gets none
  std::int64_t batch_tokens = 4096;  // that are computed together, if one input has no more
};

/// Whether a model is an encoder, which reads whole texts and generates none.
bool is_encoder(const models::Model& model);

/// Gives an encoder that does not say how it pools the mean of the states of a text's tokens, as
/// sentence-transformers does. Whether that was needed.
bool complete_pooling(models::Network& network);

/// The options of a model: inputs as long as it has positions for, or shorter where a folder of
/// sentence-transformers (sentence_bert_config.json, max_seq_length), or else tokenizer_config.json
/// (model_max_length), says so. Throws kInvalidModel where the former is malformed.
InputOptions input_options(const models::Model& model, const Encoder& encoder);

/// Takes the inputs from `first` on. `texts` are theirs, as an encoder reads them.
using RunBatch = std::function<void(std::size_t first, std::span<const text::ModelInput> inputs,
                                    std::span<const EncoderText> texts)>;

/// Turns texts into inputs and hands them over in batches, in their order and without padding.
/// `where(i)` names text i in errors. Returns how many were cut. Throws kFailed for texts that have
/// no token, or too many where they may not be cut; and as text::encode_for_model.
std::int64_t for_each_batch(const text::Tokenizer& tokenizer, std::span<const InputText> texts,
                            const InputOptions& options,
                            const std::function<std::string(std::size_t)>& where,
                            const RunBatch& run);

}  // namespace nibble::engine
