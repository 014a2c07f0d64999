#include "models/gguf/gguf_vocabulary_writer.h"

#include "core/json.h"
#include "io/json_file.h"
#include "models/gguf/vocabulary_json.h"
#include "text/pretokenize/patterns.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;
using text::Vocabulary;

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;
constexpr std::int32_t kUnused = 5;

constexpr std::string_view kFile = "tokenizer.json";

// An object of tokenizer.json that may be missing or null.
Json object_at(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_object() ? *at : Json::object();
}

std::string type_of(const Json& json) {
  return core::find_string(json, "type", kFile).value_or("");
}

struct Cut {
  std::string pattern;      // of the only Split; empty: none
  bool byte_level = false;  // bytes become letters
  bool gpt2 = false;        // by GPT-2's own pattern
  bool others = false;      // something else happens too
};

void add_step(const Json& step, Cut& cut) {
  const std::string type = type_of(step);
  if (type == "Sequence") {
    const Json steps = step.value("pretokenizers", Json::array());
    for (const Json& inner : steps) {
      add_step(inner, cut);
    }
  } else if (type == "ByteLevel") {
    cut.byte_level = true;
    cut.gpt2 = core::find_bool(step, "use_regex", kFile).value_or(true);
    cut.others = cut.others || core::find_bool(step, "add_prefix_space", kFile).value_or(false);
  } else if (type == "Split" && cut.pattern.empty()) {
    cut.pattern = core::find_string(object_at(step, "pattern"), "Regex", kFile).value_or("");
    cut.others = cut.others || cut.pattern.empty() ||
                 core::find_string(step, "behavior", kFile) != "Isolated";
  } else {
    cut.others = true;
  }
}

// llama.cpp's name for what the file does before merges.
std::string_view name_of_split(const Json& json) {
  Cut cut;
  add_step(object_at(json, "pre_tokenizer"), cut);
  const std::string normalizer = type_of(object_at(json, "normalizer"));
  const bool ignores =
      core::find_bool(object_at(json, "model"), "ignore_merges", kFile).value_or(false);
  if (cut.byte_level && !cut.others && normalizer.empty()) {
    if (cut.gpt2 && cut.pattern.empty() && !ignores) {
      return "gpt-2";
    }
    if (!cut.gpt2 && cut.pattern == text::kLlama3Pattern) {
      return ignores ? "llama-bpe" : "smaug-bpe";
    }
  }
  if (cut.byte_level && !cut.others && !cut.gpt2 && !ignores &&
      (normalizer.empty() || normalizer == "NFC") && cut.pattern == text::kQwen2Pattern) {
    return normalizer.empty() ? "deepseek-r1-qwen" : "qwen2";
  }
  core::fail(ErrorKind::kInvalidModel,
             "{}: how it cuts texts has no name in llama.cpp (GPT-2, Llama 3 and Qwen 2 have one): "
             "the model can't be written as gguf",
             kFile);
}

void put_token(Vocabulary& vocabulary, const std::string& token, std::int64_t id,
               std::int32_t type) {
  core::require(id >= 0 && id < std::ssize(vocabulary.tokens), ErrorKind::kInvalidModel,
                "{}: the id {} of token '{}' is beyond the embedding", kFile, id,
                core::printable(token));
  vocabulary.tokens[static_cast<std::size_t>(id)] = token;
  vocabulary.token_types[static_cast<std::size_t>(id)] = type;
}

void read_tokens(const Json& json, std::int64_t rows, Vocabulary& vocabulary) {
  for (std::int64_t id = 0; id < rows; ++id) {
    vocabulary.tokens.push_back(fmt::format("[PAD{}]", id));
    vocabulary.token_types.push_back(kUnused);
  }
  const Json model = object_at(json, "model");
  const Json vocab = object_at(model, "vocab");
  for (const auto& [token, id] : vocab.items()) {
    core::require(id.is_number_integer(), ErrorKind::kInvalidModel,
                  "{}: the id of token '{}' is no integer", kFile, core::printable(token));
    put_token(vocabulary, token, id.get<std::int64_t>(), kNormal);
  }
  const Json added = json.value("added_tokens", Json::array());
  for (const Json& token : added) {
    const bool special = core::find_bool(token, "special", kFile).value_or(false);
    put_token(vocabulary, core::get_string(token, "content", kFile),
              core::get_integer(token, "id", kFile, 0, rows - 1),
              special ? kControl : kUserDefined);
  }
  const Json merges = model.value("merges", Json::array());
  for (const Json& merge : merges) {
    vocabulary.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                                  : merge.at(0).get<std::string>() + " " +
                                                        merge.at(1).get<std::string>());
  }
}

std::optional<std::uint64_t> as_id(std::optional<std::int32_t> id) {
  return id ? std::optional<std::uint64_t>(static_cast<std::uint64_t>(*id)) : std::nullopt;
}

Vocabulary from_tokenizer_json(const Model& model) {
  const std::filesystem::path path = model.path / kFile;
  core::require(std::filesystem::exists(path), ErrorKind::kInvalidModel,
                "the model has no {}: only byte-level BPE of that file is written as gguf", kFile);
  const Json json = io::load_json_file(path);
  const Json bpe = object_at(json, "model");
  core::require(
      type_of(bpe) == "BPE" && !core::find_bool(bpe, "byte_fallback", kFile).value_or(false),
      ErrorKind::kInvalidModel,
      "{}: only byte-level BPE is written as gguf, and this is another kind of tokenizer", kFile);
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = name_of_split(json);
  read_tokens(json, model.network.config.vocabulary, vocabulary);
  const text::Tokenizer& tokenizer = *model.tokenizer;
  vocabulary.bos_id = as_id(tokenizer.bos());
  vocabulary.eos_id = as_id(tokenizer.eos());
  vocabulary.unknown_id = as_id(tokenizer.unk());
  vocabulary.pad_id = as_id(tokenizer.pad());
  vocabulary.add_bos = tokenizer.adds_bos();
  vocabulary.chat_template = tokenizer.chat_template();
  return vocabulary;
}

}  // namespace

Vocabulary vocabulary_of(const Model& model) {
  if (const auto own = model.companions.find(kVocabularyFile); own != model.companions.end()) {
    return vocabulary_from_json(core::parse_json(own->second, kVocabularyFile));
  }
  const std::filesystem::path stored = model.path / kVocabularyFile;
  return std::filesystem::exists(stored) ? vocabulary_from_json(io::load_json_file(stored))
                                         : from_tokenizer_json(model);
}

void add_vocabulary(const Vocabulary& vocabulary, io::GgufKeys& keys) {
  const auto add = [&](std::string_view name, io::GgufValue::Storage value) {
    keys.emplace(fmt::format("tokenizer.ggml.{}", name), io::GgufValue(std::move(value)));
  };
  const auto add_id = [&](std::string_view name, const std::optional<std::uint64_t>& id) {
    if (id) {
      add(fmt::format("{}_token_id", name), static_cast<std::uint32_t>(*id));
    }
  };
  const auto add_flag = [&](std::string_view name, std::optional<bool> flag) {
    if (flag) {
      add(name, *flag);
    }
  };
  add("model", vocabulary.model);
  add("tokens", vocabulary.tokens);
  if (!vocabulary.pre.empty()) {
    add("pre", vocabulary.pre);
  }
  if (!vocabulary.scores.empty()) {
    add("scores", vocabulary.scores);
  }
  if (!vocabulary.token_types.empty()) {
    add("token_type", vocabulary.token_types);
  }
  if (!vocabulary.merges.empty()) {
    add("merges", vocabulary.merges);
  }
  if (!vocabulary.precompiled_charsmap.empty()) {
    const std::string& map = vocabulary.precompiled_charsmap;
    add("precompiled_charsmap", std::vector<std::uint8_t>(map.begin(), map.end()));
  }
  add_id("bos", vocabulary.bos_id);
  add_id("eos", vocabulary.eos_id);
  add_id("eot", vocabulary.eot_id);
  add_id("eom", vocabulary.eom_id);
  add_id("unknown", vocabulary.unknown_id);
  add_id("padding", vocabulary.pad_id);
  add_id("seperator", vocabulary.sep_id);
  add_id("cls", vocabulary.cls_id);
  add_id("mask", vocabulary.mask_id);
  add_flag("add_bos_token", vocabulary.add_bos);
  add_flag("add_eos_token", vocabulary.add_eos);
  add_flag("add_space_prefix", vocabulary.add_space_prefix);
  add_flag("remove_extra_whitespaces", vocabulary.remove_extra_whitespaces);
  if (!vocabulary.chat_template.empty()) {
    keys.emplace("tokenizer.chat_template", io::GgufValue(vocabulary.chat_template));
  }
}

}  // namespace nibble::models
