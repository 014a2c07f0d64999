#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/model/token_table.h"
#include "text/tokenizer_parts.h"

namespace nibble::text {

/// What the files beside a vocabulary say about it. Strings are names of tokens.
struct TokenizerConfig {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::optional<std::string> pad;
  std::optional<std::string> unk;
  std::optional<std::string> sep;
  std::optional<std::string> cls;
  std::optional<std::string> mask;
  std::vector<std::string> additional_special;
  std::vector<AddedToken> added;  // added_tokens_decoder

  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_prefix_space;
  std::optional<bool> legacy;
  std::optional<bool> do_lower_case;
  std::optional<bool> tokenize_chinese_chars;
  std::optional<bool> strip_accents;

  std::optional<std::int64_t> longest_input;  // model_max_length, where it is a number of tokens
  bool truncates_left = false;                // truncation_side
  std::string tokenizer_class;
  std::string chat_template;
  std::vector<std::int64_t> end_ids;   // eos_token_id of generation_config.json or config.json
  std::optional<std::int64_t> bos_id;  // for vocabularies whose files do not name the token
  std::optional<std::int64_t> pad_id;
};

/// Reads a tokenizer_config.json; an empty `text` gives an empty config. Throws kInvalidModel.
TokenizerConfig read_tokenizer_config(std::string_view text, std::string_view what);

/// Fills in the names that `config` lacks from a special_tokens_map.json.
void merge_special_tokens_map(TokenizerConfig& config, std::string_view text,
                              std::string_view what);

/// Takes eos_token_id (a number or a list), bos_token_id and pad_token_id from a
/// generation_config.json or a config.json, where `config` has none yet.
void merge_generation_ids(TokenizerConfig& config, std::string_view text, std::string_view what);

/// The added tokens of a file together with those of its config: flags of the config win, and
/// tokens with a role that are in the vocabulary become special ones, as in transformers. Throws
/// kInvalidModel when an id contradicts the vocabulary, is taken, or leaves the ids far from dense.
std::vector<AddedToken> collect_added_tokens(std::vector<AddedToken> from_file,
                                             const TokenizerConfig& config,
                                             const TokenTable& vocabulary, std::string_view what);

/// The last steps of every loader: resolves roles to ids, lets add_bos and add_eos decide about
/// frames, finds the end tokens, and takes the chat template.
void apply_config(TokenizerParts& parts, const TokenizerConfig& config, std::string_view what);

/// Puts BOS before every text or takes it from there; nullopt leaves the frames as they are. Frames
/// that change give pairs the frame of a single text twice, as transformers' LlamaTokenizer does.
void set_bos(TokenizerParts& parts, std::optional<bool> adds, std::string_view what);
void set_eos(TokenizerParts& parts, std::optional<bool> adds, std::string_view what);

/// How the two texts of a pair stand between [CLS] and [SEP].
enum class PairForm {
  kBert,     // [CLS] A [SEP] B [SEP], of token type 0 up to the first [SEP], then 1
  kRoberta,  // <s> A </s></s> B </s>, of token type 0
};

/// [CLS] text [SEP], and pairs; nothing in place of a token that is not there.
Frames cls_sep_frames(std::optional<std::int32_t> cls, std::optional<std::int32_t> sep,
                      PairForm form);

/// The same by the names in `config`.
void set_cls_sep_frames(TokenizerParts& parts, const TokenizerConfig& config, PairForm form);

/// Adds eos and the control tokens whose names are known to end a turn to the end tokens, in order
/// and once each.
void complete_end_tokens(TokenizerParts& parts);

}  // namespace nibble::text
