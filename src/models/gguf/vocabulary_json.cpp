#include "models/gguf/vocabulary_json.h"

#include <limits>

#include "core/json.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;
using text::Vocabulary;

struct IdField {
  const char* name;
  std::optional<std::uint64_t> Vocabulary::*member;
};
constexpr IdField kIds[] = {
    {"bos_id", &Vocabulary::bos_id},   {"eos_id", &Vocabulary::eos_id},
    {"eot_id", &Vocabulary::eot_id},   {"eom_id", &Vocabulary::eom_id},
    {"pad_id", &Vocabulary::pad_id},   {"unknown_id", &Vocabulary::unknown_id},
    {"sep_id", &Vocabulary::sep_id},   {"cls_id", &Vocabulary::cls_id},
    {"mask_id", &Vocabulary::mask_id},
};

struct FlagField {
  const char* name;
  std::optional<bool> Vocabulary::*member;
};
constexpr FlagField kFlags[] = {
    {"add_bos", &Vocabulary::add_bos},
    {"add_eos", &Vocabulary::add_eos},
    {"add_space_prefix", &Vocabulary::add_space_prefix},
    {"remove_extra_whitespaces", &Vocabulary::remove_extra_whitespaces},
};

template <typename T>
void read_list(const Json& json, const char* key, std::vector<T>& values) {
  const auto at = json.find(key);
  if (at == json.end()) {
    return;
  }
  core::require(at->is_array(), ErrorKind::kInvalidModel, "{}: '{}' must be a list",
                kVocabularyFile, key);
  for (const Json& value : *at) {
    if constexpr (std::is_same_v<T, std::string>) {
      core::require(value.is_string(), ErrorKind::kInvalidModel, "{}: '{}' must hold strings",
                    kVocabularyFile, key);
    } else {
      core::require(value.is_number(), ErrorKind::kInvalidModel, "{}: '{}' must hold numbers",
                    kVocabularyFile, key);
    }
    values.push_back(value.get<T>());
  }
}

}  // namespace

std::string vocabulary_to_text(const Vocabulary& vocabulary) {
  Json json = {{"model", vocabulary.model},
               {"pre", vocabulary.pre},
               {"tokens", vocabulary.tokens},
               {"scores", vocabulary.scores},
               {"token_types", vocabulary.token_types},
               {"merges", vocabulary.merges},
               {"chat_template", vocabulary.chat_template}};
  Json bytes = Json::array();
  for (const char byte : vocabulary.precompiled_charsmap) {
    bytes.push_back(static_cast<int>(static_cast<unsigned char>(byte)));
  }
  json["precompiled_charsmap"] = std::move(bytes);
  for (const IdField& field : kIds) {
    if (vocabulary.*field.member) {
      json[field.name] = *(vocabulary.*field.member);
    }
  }
  for (const FlagField& field : kFlags) {
    if (vocabulary.*field.member) {
      json[field.name] = *(vocabulary.*field.member);
    }
  }
  try {
    return json.dump() + "\n";
  } catch (const Json::exception&) {
    core::fail(ErrorKind::kInvalidModel,
               "a token of the GGUF vocabulary is not UTF-8 and can't be stored");
  }
}

Vocabulary vocabulary_from_json(const Json& json) {
  Vocabulary vocabulary;
  vocabulary.model = core::get_string(json, "model", kVocabularyFile);
  vocabulary.pre = core::find_string(json, "pre", kVocabularyFile).value_or("");
  vocabulary.chat_template = core::find_string(json, "chat_template", kVocabularyFile).value_or("");
  read_list(json, "tokens", vocabulary.tokens);
  read_list(json, "scores", vocabulary.scores);
  read_list(json, "token_types", vocabulary.token_types);
  read_list(json, "merges", vocabulary.merges);
  std::vector<int> bytes;
  read_list(json, "precompiled_charsmap", bytes);
  for (const int byte : bytes) {
    vocabulary.precompiled_charsmap.push_back(static_cast<char>(byte));
  }
  for (const IdField& field : kIds) {
    const auto id = core::find_integer(json, field.name, kVocabularyFile, 0,
                                       std::numeric_limits<std::int64_t>::max());
    if (id) {
      vocabulary.*field.member = static_cast<std::uint64_t>(*id);
    }
  }
  for (const FlagField& field : kFlags) {
    vocabulary.*field.member = core::find_bool(json, field.name, kVocabularyFile);
  }
  return vocabulary;
}

}  // namespace nibble::models
