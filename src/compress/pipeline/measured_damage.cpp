#include "compress/pipeline/measured_damage.h"

#include <vector>

#include <fmt/ranges.h>

#include "core/json.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using core::Json;

double positive(const Json& row, std::string_view key, std::string_view what) {
  const auto value = core::find_number(row, key, what);
  core::require(value && *value > 0, ErrorKind::kInvalidModel, "{}: a row has no '{}' above 0",
                what, key);
  return *value;
}

}  // namespace

MeasuredDamage find_damage(std::string_view text, std::string_view what, std::string_view recipe) {
  const Json json = core::parse_json(text, what);
  const bool table =
      json.is_object() && json.contains("rows") && json["rows"].is_array() && !json["rows"].empty();
  core::require(table, ErrorKind::kInvalidModel,
                "{} has no rows; it must be what nibble compare --json writes", what);
  const Json& rows = json["rows"];
  std::vector<std::string> names;
  for (const Json& row : rows) {
    core::require(row.is_object(), ErrorKind::kInvalidModel, "{}: a row is no object", what);
    names.push_back(core::get_string(row, "recipe", what));
    if (names.back() == recipe) {
      return {core::get_string(json, "text", what), positive(rows.front(), "perplexity", what),
              positive(row, "perplexity", what), core::find_number(row, "kl_divergence", what),
              core::find_number(row, "top1_agreement", what)};
    }
  }
  core::fail(ErrorKind::kUsage, "{} says nothing of recipe '{}', only of {}", what,
             core::printable(recipe),
             core::printable(fmt::format("{}", fmt::join(names, ", ")), 300));
}

}  // namespace nibble::compress
