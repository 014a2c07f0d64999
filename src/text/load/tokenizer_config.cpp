#include "text/load/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include "core/json.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using core::Json;

// A token is given by its string or by an object with its "content".
std::optional<std::string> find_token(const Json& json, std::string_view key,
                                      std::string_view what) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    return std::nullopt;
  }
  if (found->is_object()) {
    return core::find_string(*found, "content", what);
  }
  return core::find_string(json, key, what);
}

void fill_names(TokenizerConfig& config, const Json& json, std::string_view what) {
  const auto fill = [&](std::optional<std::string>& name, std::string_view key) {
    if (!name) {
      name = find_token(json, key, what);
    }
  };
  fill(config.bos, "bos_token");
  fill(config.eos, "eos_token");
  fill(config.pad, "pad_token");
  fill(config.unk, "unk_token");
  fill(config.sep, "sep_token");
  fill(config.cls, "cls_token");
  fill(config.mask, "mask_token");
  const auto more = json.find("additional_special_tokens");
  if (more == json.end() || !more->is_array()) {
    return;
  }
  for (const Json& token : *more) {
    const Json holder = {{"token", token}};
    if (auto name = find_token(holder, "token", what)) {
      config.additional_special.push_back(*std::move(name));
    }
  }
}

std::int64_t parse_id(std::string_view text, std::string_view what) {
  std::int64_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  core::require(
      error == std::errc() && end == text.data() + text.size() && id >= 0 && id < kMaxVocabulary,
      ErrorKind::kInvalidModel, "{}: added_tokens_decoder: '{}' is not an id", what,
      core::printable(text));
  return id;
}

std::vector<AddedToken> read_added_tokens_decoder(const Json& json, std::string_view what) {
  std::vector<AddedToken> tokens;
  const auto list = json.find("added_tokens_decoder");
  if (list == json.end() || list->is_null()) {
    return tokens;
  }
  core::require(list->is_object(), ErrorKind::kInvalidModel,
                "{}: 'added_tokens_decoder' must be an object", what);
  for (const auto& [id, token] : list->items()) {
    const auto flag = [&what, &object = token](std::string_view key) {
      return core::find_bool(object, key, what).value_or(false);
    };
    AddedToken added;
    added.content = core::get_string(token, "content", what);
    added.id = static_cast<std::int32_t>(parse_id(id, what));
    added.single_word = flag("single_word");
    added.lstrip = flag("lstrip");
    added.rstrip = flag("rstrip");
    added.special = flag("special");
    added.normalized = core::find_bool(token, "normalized", what).value_or(!added.special);
    tokens.push_back(std::move(added));
  }
  return tokens;
}

// A string, or a list of named templates of which "default" is for plain chat.
std::string read_chat_template(const Json& json, std::string_view what) {
  const auto found = json.find("chat_template");
  if (found == json.end() || found->is_null()) {
    return {};
  }
  if (found->is_string()) {
    return found->get<std::string>();
  }
  core::require(found->is_array(), ErrorKind::kInvalidModel,
                "{}: 'chat_template' must be a string or a list of named templates", what);
  std::string chosen;
  for (const Json& entry : *found) {
    const std::string name = core::get_string(entry, "name", what);
    if (name == "default" || found->size() == 1) {
      chosen = core::get_string(entry, "template", what);
    }
  }
  return chosen;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The same JSON with integers that may not fit into 64 bits as real numbers: where a text may have
// any length, transformers writes 10^30, with all its digits.
std::string with_real_numbers(std::string_view json) {
  constexpr std::size_t kSafeDigits = 18;
  std::string out;
  bool in_string = false;
  for (std::size_t at = 0; at < json.size();) {
    std::size_t end = at + 1;
    if (in_string && json[at] == '\\' && end < json.size()) {
      ++end;
    } else if (json[at] == '"') {
      in_string = !in_string;
    } else if (!in_string && is_digit(json[at])) {
      end = std::min(json.find_first_not_of("0123456789.eE+-", at), json.size());
    }
    const std::string_view part = json.substr(at, end - at);
    out += part;
    if (part.size() > kSafeDigits && std::all_of(part.begin(), part.end(), is_digit)) {
      out += ".0";
    }
    at = end;
  }
  return out;
}

std::optional<std::int64_t> read_longest_input(const Json& json, std::string_view what) {
  constexpr double kNoLimit = 1e9;
  const auto found = json.find("model_max_length");
  if (found == json.end() || found->is_null()) {
    return std::nullopt;
  }
  core::require(found->is_number() && found->get<double>() >= 1, ErrorKind::kInvalidModel,
                "{}: 'model_max_length' must be a positive number", what);
  const auto length = found->get<double>();
  return length < kNoLimit ? std::optional(static_cast<std::int64_t>(length)) : std::nullopt;
}

bool read_truncates_left(const Json& json, std::string_view what) {
  const std::string side = core::find_string(json, "truncation_side", what).value_or("right");
  core::require(side == "left" || side == "right", ErrorKind::kInvalidModel,
                "{}: 'truncation_side' must be left or right, not '{}'", what,
                core::printable(side));
  return side == "left";
}

}  // namespace

TokenizerConfig read_tokenizer_config(std::string_view text, std::string_view what) {
  TokenizerConfig config;
  if (text.empty()) {
    return config;
  }
  const Json json = core::parse_json(with_real_numbers(text), what);
  core::require(json.is_object(), ErrorKind::kInvalidModel, "{}: must be an object", what);
  fill_names(config, json, what);
  config.added = read_added_tokens_decoder(json, what);
  config.add_bos = core::find_bool(json, "add_bos_token", what);
  config.add_eos = core::find_bool(json, "add_eos_token", what);
  config.add_prefix_space = core::find_bool(json, "add_prefix_space", what);
  config.legacy = core::find_bool(json, "legacy", what);
  config.do_lower_case = core::find_bool(json, "do_lower_case", what);
  config.tokenize_chinese_chars = core::find_bool(json, "tokenize_chinese_chars", what);
  config.strip_accents = core::find_bool(json, "strip_accents", what);
  config.longest_input = read_longest_input(json, what);
  config.truncates_left = read_truncates_left(json, what);
  config.tokenizer_class = core::find_string(json, "tokenizer_class", what).value_or("");
  config.chat_template = read_chat_template(json, what);
  return config;
}

void merge_special_tokens_map(TokenizerConfig& config, std::string_view text,
                              std::string_view what) {
  const Json json = core::parse_json(text, what);
  core::require(json.is_object(), ErrorKind::kInvalidModel, "{}: must be an object", what);
  fill_names(config, json, what);
}

void merge_generation_ids(TokenizerConfig& config, std::string_view text, std::string_view what) {
  const Json json = core::parse_json(text, what);
  core::require(json.is_object(), ErrorKind::kInvalidModel, "{}: must be an object", what);
  const auto eos = json.find("eos_token_id");
  if (config.end_ids.empty() && eos != json.end() && !eos->is_null()) {
    const Json list = eos->is_array() ? *eos : Json::array({*eos});
    for (const Json& id : list) {
      const Json holder = {{"eos_token_id", id}};
      config.end_ids.push_back(core::get_integer(holder, "eos_token_id", what, 0, kMaxVocabulary));
    }
  }
  // -1 and other negative numbers are used for "none".
  const auto fill = [&](std::optional<std::int64_t>& slot, std::string_view key) {
    const auto id = core::find_integer(json, key, what, INT64_MIN, kMaxVocabulary);
    if (!slot && id && *id >= 0) {
      slot = id;
    }
  };
  fill(config.bos_id, "bos_token_id");
  fill(config.pad_id, "pad_token_id");
}

}  // namespace nibble::text
