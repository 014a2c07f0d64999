#include <array>

#include "characters/utf8.h"
#include "core/error.h"
#include "core/json.h"
#include "text/load/loaders.h"
#include "text/model/bpe.h"
#include "text/model/word_piece.h"
#include "text/pretokenize/patterns.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using core::Json;

struct ByteLevelClass {
  std::string_view name;
  std::string_view pattern;
  bool nfc;
};

// Classes of transformers that read a vocab.json with a merges.txt, without "Fast".
constexpr std::array kByteLevelClasses = {
    ByteLevelClass{"", kGpt2Pattern, false},
    ByteLevelClass{"GPT2Tokenizer", kGpt2Pattern, false},
    ByteLevelClass{"PreTrainedTokenizer", kGpt2Pattern, false},
    ByteLevelClass{"RobertaTokenizer", kGpt2Pattern, false},
    ByteLevelClass{"BartTokenizer", kGpt2Pattern, false},
    ByteLevelClass{"Qwen2Tokenizer", kQwen2Pattern, true},
};

const ByteLevelClass& byte_level_class(std::string_view name, std::string_view what) {
  const std::string_view base = name.ends_with("Fast") ? name.substr(0, name.size() - 4) : name;
  for (const ByteLevelClass& known : kByteLevelClasses) {
    if (known.name == base) {
      return known;
    }
  }
  core::fail(
      ErrorKind::kInvalidModel,
      "{}: how the class '{}' cuts text is not known: put its tokenizer.json into the folder", what,
      core::printable(name));
}

// Calls visit(line) for each line, without its line end; an empty last line is none.
template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    visit(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

TokenTable read_vocab_json(std::string_view text, std::string_view what) {
  const Json json = core::parse_json(text, what);
  core::require(json.is_object(), ErrorKind::kInvalidModel,
                "{}: must be an object of tokens and their ids", what);
  std::vector<TokenTable::Entry> entries;
  for (const auto& [token, id] : json.items()) {
    const Json holder = {{"id", id}};
    entries.emplace_back(token, core::get_integer(holder, "id", what, 0, kMaxVocabulary - 1));
  }
  return TokenTable(entries, what);
}

}  // namespace

TokenizerParts load_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                     const TokenizerConfig& config, std::string_view what) {
  const ByteLevelClass& cut = byte_level_class(config.tokenizer_class, what);
  characters::require_utf8(merges, what);
  std::vector<Merge> ranked;
  for_each_line(merges, [&](std::string_view line) {
    if (!line.starts_with("#version") && !line.empty()) {
      ranked.push_back(parse_merge(line, what));
    }
  });
  TokenizerParts parts;
  parts.model = make_bpe(read_vocab_json(vocab_json, what), ranked, {}, what);
  std::vector<PreTokenizerPtr> steps;
  const bool add_prefix_space = config.add_prefix_space.value_or(false);
  if (cut.pattern == kGpt2Pattern) {
    steps.push_back(make_byte_level(add_prefix_space, true));
  } else {
    steps.push_back(make_split_regex(cut.pattern, SplitBehavior::kIsolated, false, what));
    steps.push_back(make_byte_level(add_prefix_space, false));
  }
  parts.pre_tokenizer = make_pre_tokenizer_sequence(std::move(steps));
  if (cut.nfc) {
    parts.normalizer = make_unicode_form(UnicodeForm::kNfc);
  }
  std::vector<DecodeStagePtr> stages;
  stages.push_back(make_byte_level_stage());
  parts.decoder = Decoder(std::move(stages));
  TokenizerConfig completed = config;
  if (!completed.eos && parts.model->tokens().id_of("<|endoftext|>")) {
    completed.eos = "<|endoftext|>";
    completed.bos = completed.bos ? completed.bos : completed.eos;
  }
  auto added = collect_added_tokens({}, completed, parts.model->tokens(), what);
  parts.added = AddedTokens(std::move(added), parts.normalizer.get(), what);
  const std::string_view name = config.tokenizer_class;
  if (name.starts_with("Roberta") || name.starts_with("Bart")) {
    set_cls_sep_frames(parts, completed, PairForm::kRoberta);
  }
  apply_config(parts, completed, what);
  return parts;
}

TokenizerParts load_vocab_txt(std::string_view text, const TokenizerConfig& config,
                              std::string_view what) {
  characters::require_utf8(text, what);
  std::vector<TokenTable::Entry> entries;
  for_each_line(text, [&](std::string_view line) {
    while (line.ends_with(' ') || line.ends_with('\t')) {
      line.remove_suffix(1);
    }
    entries.emplace_back(std::string(line), static_cast<std::int64_t>(entries.size()));
  });
  core::require(!entries.empty(), ErrorKind::kInvalidModel, "{}: no tokens", what);
  WordPieceOptions options;
  options.unk_token = config.unk.value_or(options.unk_token);
  BertNormalizerOptions normalizer;
  normalizer.lowercase = config.do_lower_case.value_or(true);
  normalizer.handle_chinese_chars = config.tokenize_chinese_chars.value_or(true);
  normalizer.strip_accents = config.strip_accents.value_or(normalizer.lowercase);

  TokenizerParts parts;
  parts.model = make_word_piece(TokenTable(entries, what), options, what);
  parts.normalizer = make_bert_normalizer(normalizer);
  parts.pre_tokenizer = make_bert_pre_tokenizer();
  std::vector<DecodeStagePtr> stages;
  stages.push_back(make_word_piece_stage(options.continuing_subword_prefix, true));
  parts.decoder = Decoder(std::move(stages));
  TokenizerConfig completed = config;
  const auto fill = [](std::optional<std::string>& name, std::string_view value) {
    name = name ? name : std::optional(std::string(value));
  };
  fill(completed.unk, "[UNK]");
  fill(completed.cls, "[CLS]");
  fill(completed.sep, "[SEP]");
  fill(completed.pad, "[PAD]");
  fill(completed.mask, "[MASK]");
  auto added = collect_added_tokens({}, completed, parts.model->tokens(), what);
  parts.added = AddedTokens(std::move(added), parts.normalizer.get(), what);
  set_cls_sep_frames(parts, completed, PairForm::kBert);
  apply_config(parts, completed, what);
  return parts;
}

}  // namespace nibble::text
