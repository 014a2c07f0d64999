#include <iterator>

#include "text/decode/decoder.h"
#include "text/json_fields.h"
#include "text/part_table.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
using core::Json;
using Stages = std::vector<DecodeStagePtr>;

Stages one(DecodeStagePtr stage) {
  Stages stages;
  stages.push_back(std::move(stage));
  return stages;
}

Stages read_sequence(const Json& json, std::string_view what) {
  Stages stages;
  for (const Json& step : part_list(json, "decoders", what)) {
    Stages more = decode_stages_from_json(step, what);
    stages.insert(stages.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
  }
  core::require(stages.size() <= kMaxParts, ErrorKind::kInvalidModel, "{}: {} stages, more than {}",
                what, stages.size(), kMaxParts);
  return stages;
}

Stages read_metaspace(const Json& json, std::string_view what) {
  const auto scheme = core::find_string(json, "prepend_scheme", what);
  const bool adds = core::find_bool(json, "add_prefix_space", what).value_or(true);
  return one(make_metaspace_stage(get_character(json, "replacement", what),
                                  scheme ? *scheme != "never" : adds));
}

Stages read_replace(const Json& json, std::string_view what) {
  PatternField pattern = get_pattern(json, what);
  std::string content = get_replacement(json, what);
  if (pattern.is_regex) {
    return one(make_replace_regex_stage(pattern.text, std::move(content), what));
  }
  core::require(!pattern.text.empty(), ErrorKind::kInvalidModel, "{}: 'pattern' is an empty string",
                what);
  return one(make_replace_stage(std::move(pattern.text), std::move(content)));
}

Stages read_strip(const Json& json, std::string_view what) {
  const auto count = [&](std::string_view key) {
    return static_cast<std::size_t>(core::get_integer(json, key, what, 0, INT32_MAX));
  };
  return one(make_strip_stage(get_character(json, "content", what), count("start"), count("stop")));
}

using Entry = PartReader<Stages>;

constexpr Entry kStages[] = {
    {"Sequence", read_sequence},
    {"ByteLevel", [](const Json&, std::string_view) { return one(make_byte_level_stage()); }},
    {"Metaspace", read_metaspace},
    {"WordPiece",
     [](const Json& json, std::string_view what) {
       return one(make_word_piece_stage(core::get_string(json, "prefix", what),
                                        get_bool(json, "cleanup", what)));
     }},
    {"Replace", read_replace},
    {"ByteFallback", [](const Json&, std::string_view) { return one(make_byte_fallback_stage()); }},
    {"Fuse", [](const Json&, std::string_view) { return one(make_fuse_stage()); }},
    {"Strip", read_strip},
};

}  // namespace

Stages decode_stages_from_json(const Json& json, std::string_view what) {
  if (json.is_null()) {
    return {};
  }
  return read_part<Stages>(kStages, "decoder", part_type(json, what), json, what);
}

}  // namespace nibble::text
