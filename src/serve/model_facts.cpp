#include "serve/model_facts.h"

#include "core/json.h"

namespace nibble::serve {

OrderedJson parse_damage(std::string_view text, std::string_view what) {
  const core::Json json = core::parse_json(text, what);
  core::require(json.is_object() && json.contains("rows") && json["rows"].is_array(),
                core::ErrorKind::kInvalidModel,
                "{} has no rows; it must be what nibble compare --json writes", what);
  OrderedJson rows = OrderedJson::array();
  for (const core::Json& row : json["rows"]) {
    core::require(row.is_object(), core::ErrorKind::kInvalidModel, "{}: a row is no object", what);
    OrderedJson kept;
    kept["recipe"] = core::get_string(row, "recipe", what);
    for (const char* field :
         {"perplexity", "increase", "bits_per_weight", "weight_bytes", "decode_tokens_per_s"}) {
      if (const auto value = core::find_number(row, field, what)) {
        kept[field] = *value;
      }
    }
    rows.push_back(std::move(kept));
  }
  return rows;
}

OrderedJson to_json(const ModelFacts& facts, std::int64_t context) {
  OrderedJson json;
  json["recipe"] = facts.recipe;
  json["bits_per_weight"] = facts.bits_per_weight;
  json["weight_bytes"] = facts.weight_bytes;
  json["context"] = context;
  json["kv_type"] = facts.kv_type;
  json["device"] = facts.device;
  json["damage"] = facts.damage;
  return json;
}

}  // namespace nibble::serve
