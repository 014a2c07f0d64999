
#include "text/json_fields.h"
#include "text/model/bpe.h"
#include "text/model/unigram.h"
#include "text/model/word_piece.h"
#include "text/part_table.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using core::Json;

// Ids beyond this are refused by TokenTable with the token's name; here they only must fit.
constexpr std::int64_t kAnyId = INT64_MAX;

const Json& get_list(const Json& json, std::string_view key, std::string_view what) {
  const auto found = json.find(key);
  core::require(found != json.end() && found->is_array(), ErrorKind::kInvalidModel,
                "{}: '{}' must be an array", what, key);
  return *found;
}

TokenTable read_vocab(const Json& json, std::string_view what) {
  const auto vocab = json.find("vocab");
  core::require(vocab != json.end() && vocab->is_object(), ErrorKind::kInvalidModel,
                "{}: 'vocab' must be an object of tokens and their ids", what);
  std::vector<TokenTable::Entry> entries;
  entries.reserve(vocab->size());
  for (const auto& [token, id] : vocab->items()) {
    core::require(id.is_number_integer(), ErrorKind::kInvalidModel,
                  "{}: the id of '{}' must be an integer", what, core::printable(token));
    const bool fits =
        !id.is_number_unsigned() || id.get<std::uint64_t>() <= static_cast<std::uint64_t>(kAnyId);
    entries.emplace_back(token, fits ? id.get<std::int64_t>() : kAnyId);
  }
  return TokenTable(entries, what);
}

std::vector<Merge> read_merges(const Json& json, std::string_view what) {
  std::vector<Merge> merges;
  const Json& list = get_list(json, "merges", what);
  merges.reserve(list.size());
  for (const Json& merge : list) {
    if (merge.is_string()) {
      const auto& line = merge.get_ref<const std::string&>();
      if (!line.starts_with("#version")) {
        merges.push_back(parse_merge(line, what));
      }
      continue;
    }
    core::require(
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
        ErrorKind::kInvalidModel, "{}: merge {} must be \"left right\" or [\"left\", \"right\"]",
        what, merges.size());
    merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  return merges;
}

WordModelPtr read_bpe(const Json& json, std::string_view what) {
  const auto dropout = core::find_number(json, "dropout", what);
  core::require(dropout.value_or(0) == 0, ErrorKind::kInvalidModel,
                "{}: dropout {} makes tokens random, not supported", what, dropout.value_or(0));
  BpeOptions options;
  options.unk_token = core::find_string(json, "unk_token", what);
  options.continuing_subword_prefix =
      core::find_string(json, "continuing_subword_prefix", what).value_or("");
  options.end_of_word_suffix = core::find_string(json, "end_of_word_suffix", what).value_or("");
  options.fuse_unk = core::find_bool(json, "fuse_unk", what).value_or(false);
  options.byte_fallback = core::find_bool(json, "byte_fallback", what).value_or(false);
  options.ignore_merges = core::find_bool(json, "ignore_merges", what).value_or(false);
  return make_bpe(read_vocab(json, what), read_merges(json, what), options, what);
}

WordModelPtr read_unigram(const Json& json, std::string_view what) {
  std::vector<std::pair<std::string, double>> vocabulary;
  for (const Json& entry : get_list(json, "vocab", what)) {
    core::require(
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(),
        ErrorKind::kInvalidModel, "{}: entry {} of 'vocab' must be [token, score]", what,
        vocabulary.size());
    vocabulary.emplace_back(entry[0].get<std::string>(), entry[1].get<double>());
  }
  return make_unigram(vocabulary, core::find_integer(json, "unk_id", what, 0, kMaxVocabulary),
                      core::find_bool(json, "byte_fallback", what).value_or(false), what);
}

WordModelPtr read_word_piece(const Json& json, std::string_view what) {
  WordPieceOptions options;
  options.unk_token = core::get_string(json, "unk_token", what);
  options.continuing_subword_prefix = core::get_string(json, "continuing_subword_prefix", what);
  options.max_input_chars_per_word =
      core::get_integer(json, "max_input_chars_per_word", what, 0, INT64_MAX);
  return make_word_piece(read_vocab(json, what), options, what);
}

WordModelPtr read_word_level(const Json& json, std::string_view what) {
  return make_word_level(read_vocab(json, what), core::get_string(json, "unk_token", what), what);
}

using Entry = PartReader<WordModelPtr>;

constexpr Entry kModels[] = {
    {"BPE", read_bpe},
    {"Unigram", read_unigram},
    {"WordPiece", read_word_piece},
    {"WordLevel", read_word_level},
};

// Files written before there was a "type" are told apart by their fields.
std::string model_type(const Json& json, std::string_view what) {
  core::require(json.is_object(), ErrorKind::kInvalidModel, "{}: must be an object", what);
  if (auto type = core::find_string(json, "type", what)) {
    return *std::move(type);
  }
  if (json.contains("merges")) {
    return "BPE";
  }
  if (json.contains("continuing_subword_prefix")) {
    return "WordPiece";
  }
  return json.contains("unk_id") ? "Unigram" : "WordLevel";
}

}  // namespace

WordModelPtr word_model_from_json(const Json& json, std::string_view what) {
  return read_part<WordModelPtr>(kModels, "model", model_type(json, what), json, what);
}

}  // namespace nibble::text
