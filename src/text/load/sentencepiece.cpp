#include <array>

#include "core/error.h"
#include "text/load/loaders.h"
#include "text/load/sentencepiece_proto.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

enum class Ends { kBos, kEos, kByModel };

struct KnownClass {
  std::string_view name;
  Ends ends;
};

// Classes of transformers whose ids are those of the model file. Others shift them (XLM-R, mBART,
// Pegasus) or rewrite the text first (ALBERT, XLNet): those folders need their tokenizer.json.
constexpr std::array kClasses = {
    KnownClass{"", Ends::kByModel},
    KnownClass{"PreTrainedTokenizer", Ends::kByModel},
    KnownClass{"PreTrainedTokenizerFast", Ends::kByModel},
    KnownClass{"LlamaTokenizer", Ends::kBos},
    KnownClass{"LlamaTokenizerFast", Ends::kBos},
    KnownClass{"CodeLlamaTokenizer", Ends::kBos},
    KnownClass{"CodeLlamaTokenizerFast", Ends::kBos},
    KnownClass{"GemmaTokenizer", Ends::kBos},
    KnownClass{"GemmaTokenizerFast", Ends::kBos},
    KnownClass{"T5Tokenizer", Ends::kEos},
    KnownClass{"T5TokenizerFast", Ends::kEos},
    KnownClass{"MT5Tokenizer", Ends::kEos},
    KnownClass{"MT5TokenizerFast", Ends::kEos},
};

Ends ends_of_class(std::string_view name, std::string_view what) {
  for (const KnownClass& known : kClasses) {
    if (known.name == name) {
      return known.ends;
    }
  }
  core::fail(
      ErrorKind::kInvalidModel,
      "{}: the class '{}' changes what the model file says: put its tokenizer.json into the folder",
      what, core::printable(name));
}

std::vector<AddedToken> control_tokens(const SentencePieceVocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    if (vocabulary.types[i] == PieceType::kControl || vocabulary.types[i] == PieceType::kUnknown) {
      AddedToken token;
      token.content = vocabulary.pieces[i];
      token.id = static_cast<std::int32_t>(i);
      token.special = true;
      tokens.push_back(std::move(token));
    }
  }
  return tokens;
}

SentencePieceRules complete_rules(const SentencePieceFile& file, const TokenizerConfig& config) {
  SentencePieceRules rules = file.rules;
  rules.prefix_at_origin_only = !config.legacy.value_or(true);
  rules.add_dummy_prefix = rules.add_dummy_prefix && config.add_prefix_space.value_or(true);
  for (std::size_t i = 0; i < file.vocabulary.pieces.size(); ++i) {
    if (file.vocabulary.types[i] == PieceType::kUserDefined) {
      rules.verbatim.push_back(file.vocabulary.pieces[i]);
    }
  }
  return rules;
}

}  // namespace

TokenizerParts load_sentencepiece(std::string_view bytes, const TokenizerConfig& config,
                                  std::string_view what) {
  const SentencePieceFile file = read_sentencepiece_file(bytes, what);
  core::require(file.kind == SentencePieceKind::kUnigram || file.kind == SentencePieceKind::kBpe,
                ErrorKind::kInvalidModel, "{}: SentencePiece models of type {} are not supported",
                what, file.kind == SentencePieceKind::kWord ? "word" : "char");
  const bool is_bpe = file.kind == SentencePieceKind::kBpe;
  Ends ends = ends_of_class(config.tokenizer_class, what);
  if (ends == Ends::kByModel && is_bpe) {
    ends = Ends::kBos;  // what Llama's tokenizer does, the only wide-spread user of this kind
  }

  TokenizerParts parts;
  const SentencePieceRules rules = complete_rules(file, config);
  parts.normalizer = make_sentencepiece_normalizer(rules, what);
  parts.model = is_bpe ? make_sentencepiece_bpe(file.vocabulary, what)
                       : make_sentencepiece_unigram(file.vocabulary, what);
  auto added =
      collect_added_tokens(control_tokens(file.vocabulary), config, parts.model->tokens(), what);
  parts.added = AddedTokens(std::move(added), parts.normalizer.get(), what);
  parts.decoder = make_sentencepiece_decoder(rules.add_dummy_prefix);
  parts.special.bos = parts.added.id_of(file.bos_piece);
  parts.special.eos = parts.added.id_of(file.eos_piece);
  parts.special.pad = parts.added.id_of(file.pad_piece);
  parts.special.unk = file.vocabulary.unk;
  set_bos(parts, ends == Ends::kBos && parts.special.bos, what);
  set_eos(parts, ends == Ends::kEos && parts.special.eos, what);
  apply_config(parts, config, what);
  return parts;
}

}  // namespace nibble::text
