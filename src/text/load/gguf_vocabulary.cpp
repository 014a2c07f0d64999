#include <array>

#include "characters/utf8.h"
#include "core/error.h"
#include "text/load/loaders.h"
#include "text/model/bpe.h"
#include "text/model/byte_tokens.h"
#include "text/model/sentencepiece.h"
#include "text/model/space_chunks.h"
#include "text/model/word_piece.h"
#include "text/normalize/sentencepiece.h"
#include "text/pretokenize/patterns.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

constexpr std::string_view kWhat = "GGUF tokenizer";

std::optional<std::int32_t> checked_id(std::optional<std::uint64_t> id,
                                       const Vocabulary& vocabulary, std::string_view key) {
  if (!id || *id == UINT32_MAX) {
    return std::nullopt;
  }
  core::require(*id < vocabulary.tokens.size(), ErrorKind::kInvalidModel,
                "{}: {} is {}, of {} tokens", kWhat, key, *id, vocabulary.tokens.size());
  return static_cast<std::int32_t>(*id);
}

// A file without types has only ordinary tokens, but for those with a role and the byte pieces.
std::vector<PieceType> default_types(const Vocabulary& vocabulary) {
  std::vector<PieceType> types;
  for (const std::string& token : vocabulary.tokens) {
    types.push_back(byte_of_token(token, false) >= 0 ? PieceType::kByte : PieceType::kNormal);
  }
  for (const auto& id :
       {vocabulary.bos_id, vocabulary.eos_id, vocabulary.pad_id, vocabulary.unknown_id}) {
    if (id && *id < types.size()) {
      types[static_cast<std::size_t>(*id)] = PieceType::kControl;
    }
  }
  return types;
}

std::vector<PieceType> checked_types(const Vocabulary& vocabulary) {
  if (vocabulary.token_types.empty()) {
    return default_types(vocabulary);
  }
  core::require(vocabulary.token_types.size() == vocabulary.tokens.size(), ErrorKind::kInvalidModel,
                "{}: {} token types for {} tokens", kWhat, vocabulary.token_types.size(),
                vocabulary.tokens.size());
  std::vector<PieceType> types;
  types.reserve(vocabulary.token_types.size());
  for (const std::int32_t type : vocabulary.token_types) {
    // 0 is "undefined", which some converters write for ordinary tokens.
    core::require(type >= 0 && type <= 6, ErrorKind::kInvalidModel,
                  "{}: the token type {} of token {} is unknown", kWhat, type, types.size());
    types.push_back(type == 0 ? PieceType::kNormal : static_cast<PieceType>(type));
  }
  return types;
}

bool is_control(PieceType type) {
  return type == PieceType::kControl || type == PieceType::kUnknown;
}

AddedTokens added_tokens(const std::vector<std::string>& tokens,
                         const std::vector<PieceType>& types) {
  std::vector<AddedToken> added;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (is_control(types[i]) || types[i] == PieceType::kUserDefined) {
      AddedToken token;
      token.content = tokens[i];
      token.id = static_cast<std::int32_t>(i);
      token.special = is_control(types[i]);
      added.push_back(std::move(token));
    }
  }
  return AddedTokens(std::move(added), nullptr, kWhat);
}

TokenTable token_table(const std::vector<std::string>& tokens,
                       const std::vector<PieceType>& types) {
  std::vector<TokenTable::Entry> entries;
  std::vector<bool> hidden;
  entries.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    core::require(characters::is_valid_utf8(tokens[i]), ErrorKind::kInvalidModel,
                  "{}: token {} is not valid UTF-8", kWhat, i);
    entries.emplace_back(tokens[i], static_cast<std::int64_t>(i));
    hidden.push_back(is_control(types[i]));
  }
  return TokenTable(entries, kWhat, hidden);
}

SentencePieceVocabulary pieces(const Vocabulary& vocabulary, const std::vector<PieceType>& types,
                               std::optional<std::int32_t> unk) {
  SentencePieceVocabulary result;
  result.pieces = vocabulary.tokens;
  result.scores = vocabulary.scores;
  result.types = types;
  result.unk = unk;
  for (const PieceType type : types) {
    result.byte_fallback = result.byte_fallback || type == PieceType::kByte;
  }
  return result;
}

// Files may leave out the keys of the tokens that every SentencePiece vocabulary has.
void default_roles(const std::vector<PieceType>& types, TokenizerParts& parts) {
  SpecialIds& special = parts.special;
  special.bos = special.bos ? special.bos : parts.added.id_of("<s>");
  special.eos = special.eos ? special.eos : parts.added.id_of("</s>");
  for (std::size_t i = 0; i < types.size() && !special.unk; ++i) {
    if (types[i] == PieceType::kUnknown) {
      special.unk = static_cast<std::int32_t>(i);
    }
  }
}

void load_llama(const Vocabulary& vocabulary, const std::vector<PieceType>& types,
                TokenizerParts& parts) {
  default_roles(types, parts);
  SentencePieceRules rules;
  rules.add_dummy_prefix = vocabulary.add_space_prefix.value_or(true);
  rules.remove_extra_whitespaces = false;
  parts.normalizer = make_sentencepiece_normalizer(rules, kWhat);
  parts.model = make_sentencepiece_bpe(pieces(vocabulary, types, parts.special.unk), kWhat);
  parts.decoder = make_sentencepiece_decoder(rules.add_dummy_prefix);
  set_bos(parts, vocabulary.add_bos.value_or(parts.special.bos.has_value()), kWhat);
  set_eos(parts, vocabulary.add_eos.value_or(false), kWhat);
}

void load_t5(const Vocabulary& vocabulary, const std::vector<PieceType>& types,
             TokenizerParts& parts) {
  default_roles(types, parts);
  SentencePieceRules rules;
  rules.charsmap = vocabulary.precompiled_charsmap;
  rules.add_dummy_prefix = vocabulary.add_space_prefix.value_or(true);
  rules.remove_extra_whitespaces = vocabulary.remove_extra_whitespaces.value_or(true);
  parts.normalizer = make_sentencepiece_normalizer(rules, kWhat);
  parts.model = make_sentencepiece_unigram(pieces(vocabulary, types, parts.special.unk), kWhat);
  parts.decoder = make_sentencepiece_decoder(rules.add_dummy_prefix);
  set_bos(parts, vocabulary.add_bos.value_or(false), kWhat);
  set_eos(parts, vocabulary.add_eos.value_or(parts.special.eos.has_value()), kWhat);
}

void load_gpt2(const Vocabulary& vocabulary, const std::vector<PieceType>& types,
               TokenizerParts& parts) {
  core::require(!vocabulary.pre.empty(), ErrorKind::kInvalidModel,
                "{}: tokenizer.ggml.pre is missing, so it is unknown how text is cut into words: "
                "convert the model "
                "again with a recent converter",
                kWhat);
  const NamedSplit* named = find_named_split(vocabulary.pre);
  core::require(named != nullptr, ErrorKind::kInvalidModel,
                "{}: the pre-tokenizer '{}' is not supported", kWhat,
                core::printable(vocabulary.pre));
  std::vector<PreTokenizerPtr> steps;
  for (const std::string_view pattern : named->patterns) {
    steps.push_back(make_split_regex(pattern, SplitBehavior::kIsolated, false, kWhat));
  }
  steps.push_back(make_byte_level(false, false));
  parts.pre_tokenizer = make_pre_tokenizer_sequence(std::move(steps));
  if (named->nfc) {
    parts.normalizer = make_unicode_form(UnicodeForm::kNfc);
  }
  std::vector<Merge> merges;
  for (const std::string& merge : vocabulary.merges) {
    merges.push_back(parse_merge(merge, kWhat));
  }
  core::require(!merges.empty(), ErrorKind::kInvalidModel, "{}: tokenizer.ggml.merges is missing",
                kWhat);
  BpeOptions options;
  options.ignore_merges = named->ignore_merges;
  parts.model = make_bpe(token_table(vocabulary.tokens, types), merges, options, kWhat);
  std::vector<DecodeStagePtr> stages;
  stages.push_back(make_byte_level_stage());
  parts.decoder = Decoder(std::move(stages));
  set_bos(parts, vocabulary.add_bos.value_or(named->adds_bos && parts.special.bos), kWhat);
  set_eos(parts, vocabulary.add_eos.value_or(false), kWhat);
}

// GGUF marks the start of a word with a visible space where BERT's own vocab.txt marks its
// continuation with "##". Tokens in brackets have no mark.
std::vector<std::string> bert_tokens(const Vocabulary& vocabulary) {
  std::vector<std::string> tokens;
  tokens.reserve(vocabulary.tokens.size());
  for (const std::string& token : vocabulary.tokens) {
    if (token.starts_with(kVisibleSpace)) {
      tokens.push_back(token.substr(kVisibleSpace.size()));
    } else if (token.starts_with('[') && token.ends_with(']')) {
      tokens.push_back(token);
    } else {
      tokens.push_back("##" + token);
    }
  }
  return tokens;
}

void load_bert(const Vocabulary& vocabulary, const std::vector<PieceType>& types,
               TokenizerParts& parts) {
  TokenTable table = token_table(bert_tokens(vocabulary),
                                 std::vector<PieceType>(types.size(), PieceType::kNormal));
  SpecialIds& special = parts.special;
  special.unk = special.unk ? special.unk : table.id_of("[UNK]");
  special.cls = special.cls ? special.cls : (special.bos ? special.bos : table.id_of("[CLS]"));
  special.sep = special.sep ? special.sep : (special.eos ? special.eos : table.id_of("[SEP]"));
  WordPieceOptions options;
  options.unk_token = special.unk ? std::string(table.token(*special.unk)) : "[UNK]";
  parts.normalizer = make_bert_normalizer({});
  parts.pre_tokenizer = make_bert_pre_tokenizer();
  parts.model = make_word_piece(std::move(table), options, kWhat);
  std::vector<DecodeStagePtr> stages;
  stages.push_back(make_word_piece_stage(options.continuing_subword_prefix, true));
  parts.decoder = Decoder(std::move(stages));
  parts.frames = cls_sep_frames(vocabulary.add_bos.value_or(true) ? special.cls : std::nullopt,
                                vocabulary.add_eos.value_or(true) ? special.sep : std::nullopt,
                                PairForm::kBert);
}

struct Loader {
  std::string_view model;
  void (*load)(const Vocabulary&, const std::vector<PieceType>&, TokenizerParts&);
};

constexpr std::array kLoaders = {
    Loader{"llama", load_llama},
    Loader{"gpt2", load_gpt2},
    Loader{"bert", load_bert},
    Loader{"t5", load_t5},
};

}  // namespace

TokenizerParts load_gguf_vocabulary(const Vocabulary& vocabulary) {
  for (const Loader& loader : kLoaders) {
    if (loader.model != vocabulary.model) {
      continue;
    }
    core::require(!vocabulary.tokens.empty(), ErrorKind::kInvalidModel,
                  "{}: tokenizer.ggml.tokens is missing", kWhat);
    const std::vector<PieceType> types = checked_types(vocabulary);
    TokenizerParts parts;
    parts.added = added_tokens(vocabulary.tokens, types);
    parts.special.bos = checked_id(vocabulary.bos_id, vocabulary, "bos_token_id");
    parts.special.eos = checked_id(vocabulary.eos_id, vocabulary, "eos_token_id");
    parts.special.unk = checked_id(vocabulary.unknown_id, vocabulary, "unknown_token_id");
    parts.special.pad = checked_id(vocabulary.pad_id, vocabulary, "padding_token_id");
    parts.special.sep = checked_id(vocabulary.sep_id, vocabulary, "seperator_token_id");
    parts.special.cls = checked_id(vocabulary.cls_id, vocabulary, "cls_token_id");
    parts.special.mask = checked_id(vocabulary.mask_id, vocabulary, "mask_token_id");
    loader.load(vocabulary, types, parts);
    for (const auto& [id, key] :
         {std::pair{vocabulary.eot_id, "eot_token_id"}, {vocabulary.eom_id, "eom_token_id"}}) {
      if (const auto end = checked_id(id, vocabulary, key)) {
        parts.special.ends.push_back(*end);
      }
    }
    complete_end_tokens(parts);
    parts.chat_template = vocabulary.chat_template;
    return parts;
  }
  core::fail(ErrorKind::kInvalidModel, "{}: the model '{}' is not supported", kWhat,
             core::printable(vocabulary.model));
}

}  // namespace nibble::text
