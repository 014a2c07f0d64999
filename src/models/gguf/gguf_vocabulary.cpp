#include <limits>

#include "models/gguf/gguf_source.h"

namespace nibble::models {
namespace {

std::optional<std::uint64_t> find_id(const io::GgufMetadata& metadata, const char* name) {
  const auto id = metadata.find_integer(fmt::format("tokenizer.ggml.{}_token_id", name), 0,
                                        std::numeric_limits<std::int64_t>::max());
  return id ? std::optional<std::uint64_t>(static_cast<std::uint64_t>(*id)) : std::nullopt;
}

std::string find_text(const io::GgufMetadata& metadata, std::string_view key) {
  const std::string* text = metadata.find_string(key);
  return text == nullptr ? std::string() : *text;
}

}  // namespace

text::Vocabulary gguf_vocabulary(const io::GgufMetadata& metadata) {
  text::Vocabulary vocabulary;
  vocabulary.model = metadata.get_string("tokenizer.ggml.model");
  vocabulary.pre = find_text(metadata, "tokenizer.ggml.pre");
  vocabulary.tokens = metadata.get_strings("tokenizer.ggml.tokens");
  if (const auto scores = metadata.find_numbers("tokenizer.ggml.scores")) {
    vocabulary.scores.assign(scores->begin(), scores->end());
  }
  if (const auto types = metadata.find_integers("tokenizer.ggml.token_type")) {
    vocabulary.token_types.assign(types->begin(), types->end());
  }
  if (const auto* merges = metadata.find_strings("tokenizer.ggml.merges")) {
    vocabulary.merges = *merges;
  }
  if (const auto bytes = metadata.find_integers("tokenizer.ggml.precompiled_charsmap")) {
    vocabulary.precompiled_charsmap.assign(bytes->begin(), bytes->end());
  }
  vocabulary.bos_id = find_id(metadata, "bos");
  vocabulary.eos_id = find_id(metadata, "eos");
  vocabulary.eot_id = find_id(metadata, "eot");
  vocabulary.eom_id = find_id(metadata, "eom");
  vocabulary.unknown_id = find_id(metadata, "unknown");
  vocabulary.pad_id = find_id(metadata, "padding");
  vocabulary.sep_id = find_id(metadata, "seperator");
  vocabulary.cls_id = find_id(metadata, "cls");
  vocabulary.mask_id = find_id(metadata, "mask");
  vocabulary.add_bos = metadata.find_bool("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = metadata.find_bool("tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = metadata.find_bool("tokenizer.ggml.add_space_prefix");
  vocabulary.remove_extra_whitespaces =
      metadata.find_bool("tokenizer.ggml.remove_extra_whitespaces");
  vocabulary.chat_template = find_text(metadata, "tokenizer.chat_template");
  return vocabulary;
}

}  // namespace nibble::models
