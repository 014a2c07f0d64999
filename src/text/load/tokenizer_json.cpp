#include <array>

#include "core/json.h"
#include "text/json_fields.h"
#include "text/load/loaders.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using core::Json;

const Json& member(const Json& json, std::string_view key) {
  static const Json null = nullptr;
  const auto found = json.find(key);
  return found == json.end() ? null : *found;
}

std::vector<AddedToken> read_added_tokens(const Json& json, std::string_view what) {
  std::vector<AddedToken> tokens;
  const Json& list = member(json, "added_tokens");
  if (list.is_null()) {
    return tokens;
  }
  core::require(list.is_array(), ErrorKind::kInvalidModel, "{}: 'added_tokens' must be an array",
                what);
  for (const Json& entry : list) {
    AddedToken token;
    token.id =
        static_cast<std::int32_t>(core::get_integer(entry, "id", what, 0, kMaxVocabulary - 1));
    token.content = core::get_string(entry, "content", what);
    token.single_word = get_bool(entry, "single_word", what);
    token.lstrip = get_bool(entry, "lstrip", what);
    token.rstrip = get_bool(entry, "rstrip", what);
    token.normalized = get_bool(entry, "normalized", what);
    token.special = get_bool(entry, "special", what);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::int32_t read_id(const Json& json, const TokenizerParts& parts, std::string_view what) {
  const Json holder = {{"id", json}};
  return static_cast<std::int32_t>(
      core::get_integer(holder, "id", what, 0, parts.vocab_size() - 1));
}

std::vector<std::int32_t> template_ids(const Json& json, const std::string& name,
                                       const TokenizerParts& parts, std::string_view what) {
  const Json& tokens = member(json, "special_tokens");
  const Json& token = tokens.is_object() ? member(tokens, name) : tokens;
  core::require(token.is_object() && member(token, "ids").is_array(), ErrorKind::kInvalidModel,
                "{}: the template's '{}' has no ids in 'special_tokens'", what,
                core::printable(name));
  std::vector<std::int32_t> ids;
  for (const Json& id : member(token, "ids")) {
    ids.push_back(read_id(id, parts, what));
  }
  return ids;
}

std::int32_t read_type(const Json& step, std::string_view what) {
  constexpr std::int64_t kMostTypes = 256;
  return static_cast<std::int32_t>(
      core::find_integer(step, "type_id", what, 0, kMostTypes - 1).value_or(0));
}

// The steps of a template: special tokens around texts, or nothing where the texts are not A, and B
// behind it in a pair.
std::optional<Frame> read_template(const Json& json, std::string_view key,
                                   const TokenizerParts& parts, std::string_view what) {
  Frame frame;
  const std::size_t texts = key == "pair" ? 2 : 1;
  std::string seen;
  for (const Json& step : part_list(json, key, what)) {
    core::require(step.is_object() && step.size() == 1, ErrorKind::kInvalidModel,
                  "{}: a step of '{}' must be a Sequence or a SpecialToken", what, key);
    if (step.contains("Sequence")) {
      const Json& sequence = member(step, "Sequence");
      seen += core::get_string(sequence, "id", what);
      (seen.size() > 1 ? frame.second_type : frame.first_type) = read_type(sequence, what);
      continue;
    }
    const Json& special = member(step, "SpecialToken");
    const std::string name = core::get_string(special, "id", what);
    auto& place = seen.empty() ? frame.before : seen.size() < texts ? frame.between : frame.behind;
    for (const std::int32_t id : template_ids(json, name, parts, what)) {
      place.push_back({id, read_type(special, what)});
    }
  }
  return seen == std::string_view("AB").substr(0, texts) ? std::optional(frame) : std::nullopt;
}

std::optional<Frames> read_templates(const Json& json, const TokenizerParts& parts,
                                     std::string_view what) {
  Frames frames;
  const std::optional<Frame> single = read_template(json, "single", parts, what);
  core::require(single.has_value(), ErrorKind::kInvalidModel,
                "{}: a template 'single' without exactly one text A is not supported", what);
  frames.single = *single;
  frames.pair = json.contains("pair") ? read_template(json, "pair", parts, what) : std::nullopt;
  return frames;
}

// "BertProcessing" and "RobertaProcessing".
template <PairForm kForm>
std::optional<Frames> read_cls_sep(const Json& json, const TokenizerParts& parts,
                                   std::string_view what) {
  const auto id = [&](std::string_view key) {
    const Json& pair = member(json, key);
    core::require(pair.is_array() && pair.size() == 2, ErrorKind::kInvalidModel,
                  "{}: '{}' must be [token, id]", what, key);
    return read_id(pair[1], parts, what);
  };
  return cls_sep_frames(id("cls"), id("sep"), kForm);
}

bool adds_tokens(const Frames& frames) {
  return frames.single.tokens() > 0 || (frames.pair && frames.pair->tokens() > 0);
}

std::optional<Frames> read_post_processor(const Json& json, const TokenizerParts& parts,
                                          std::string_view what);

// Of the steps, only one may add tokens.
std::optional<Frames> read_processor_sequence(const Json& json, const TokenizerParts& parts,
                                              std::string_view what) {
  std::optional<Frames> frames;
  for (const Json& step : part_list(json, "processors", what)) {
    std::optional<Frames> more = read_post_processor(step, parts, what);
    const bool added = frames && adds_tokens(*frames);
    core::require(!added || !more || !adds_tokens(*more), ErrorKind::kInvalidModel,
                  "{}: a sequence of two post-processors that add tokens is not supported", what);
    if (more && !added) {
      frames = std::move(more);
    }
  }
  return frames;
}

// Nothing where the post-processor leaves the ids of texts alone.
std::optional<Frames> read_post_processor(const Json& json, const TokenizerParts& parts,
                                          std::string_view what) {
  struct Entry {
    std::string_view type;
    std::optional<Frames> (*read)(const Json&, const TokenizerParts&, std::string_view);
  };
  constexpr std::array kPostProcessors = {
      Entry{"TemplateProcessing", read_templates},
      Entry{"BertProcessing", read_cls_sep<PairForm::kBert>},
      Entry{"RobertaProcessing", read_cls_sep<PairForm::kRoberta>},
      Entry{"ByteLevel", [](const Json&, const TokenizerParts&,
                            std::string_view) { return std::optional<Frames>(); }},
      Entry{"Sequence", read_processor_sequence},
  };
  if (json.is_null()) {
    return std::nullopt;
  }
  const std::string type = part_type(json, what);
  for (const Entry& entry : kPostProcessors) {
    if (entry.type == type) {
      return entry.read(json, parts, what);
    }
  }
  core::fail(ErrorKind::kInvalidModel, "{}: the post-processor '{}' is not supported", what,
             core::printable(type));
}

// "unk_token" of BPE and WordPiece, "unk_id" of Unigram.
std::optional<std::int32_t> read_unknown(const Json& model, const TokenTable& tokens,
                                         std::string_view what) {
  if (const auto id = core::find_integer(model, "unk_id", what, 0, kMaxVocabulary)) {
    return static_cast<std::int32_t>(*id);
  }
  const auto name = core::find_string(model, "unk_token", what);
  return name ? tokens.id_of(*name) : std::nullopt;
}

}  // namespace

TokenizerParts load_tokenizer_json(std::string_view text, const TokenizerConfig& config,
                                   std::string_view what) {
  const Json json = core::parse_json(text, what);
  core::require(json.is_object(), ErrorKind::kInvalidModel, "{}: must be an object", what);
  const std::string version = core::find_string(json, "version", what).value_or("1.0");
  core::require(version == "1.0", ErrorKind::kInvalidModel,
                "{}: version '{}' is not supported, only 1.0", what, core::printable(version));
  TokenizerParts parts;
  parts.model = word_model_from_json(member(json, "model"), what);
  parts.special.unk = read_unknown(member(json, "model"), parts.model->tokens(), what);
  parts.normalizer = normalizer_from_json(member(json, "normalizer"), what);
  parts.pre_tokenizer = pre_tokenizer_from_json(member(json, "pre_tokenizer"), what);
  parts.decoder = Decoder(decode_stages_from_json(member(json, "decoder"), what));
  auto added =
      collect_added_tokens(read_added_tokens(json, what), config, parts.model->tokens(), what);
  parts.added = AddedTokens(std::move(added), parts.normalizer.get(), what);
  parts.frames =
      read_post_processor(member(json, "post_processor"), parts, what).value_or(Frames());
  apply_config(parts, config, what);
  return parts;
}

}  // namespace nibble::text
