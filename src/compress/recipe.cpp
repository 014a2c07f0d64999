#include "compress/recipe.h"

#include <charconv>
#include <optional>

#include "io/json_file.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using core::Json;
using formats::FormatKind;
using formats::Scheme;

constexpr std::int64_t kDefaultGroup = 128;
constexpr std::int64_t kDefaultBookGroup = 64;
constexpr std::int64_t kMaxGroup = 1 << 20;

// Takes `prefix` off the front of `text`.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 1 || number > kMaxGroup) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// "g64" or "row" or nothing; false when it is malformed.
bool take_group(std::string_view& text, std::int64_t fallback, Scheme& scheme) {
  scheme.group = fallback;
  if (take(text, "row")) {
    scheme.group = 0;
  } else if (take(text, "g")) {
    const auto group = take_number(text);
    if (!group) {
      return false;
    }
    scheme.group = *group;
  }
  return true;
}

// "w4g128-sym" after the method's name.
std::optional<Scheme> integer_scheme(std::string_view text) {
  Scheme scheme;
  scheme.kind = FormatKind::kInt;
  if (!take(text, "w")) {
    return std::nullopt;
  }
  const auto bits = take_number(text);
  if (!bits || (*bits != 2 && *bits != 3 && *bits != 4 && *bits != 8) ||
      !take_group(text, kDefaultGroup, scheme)) {
    return std::nullopt;
  }
  scheme.bits = static_cast<int>(*bits);
  scheme.symmetric = take(text, "-sym");
  return text.empty() ? std::optional(scheme) : std::nullopt;
}

std::optional<Scheme> book_scheme(std::string_view text, formats::Book book) {
  Scheme scheme;
  scheme.kind = FormatKind::kLut4;
  scheme.bits = 4;
  scheme.book = book;
  const bool good = take_group(text, kDefaultBookGroup, scheme);
  return good && text.empty() ? std::optional(scheme) : std::nullopt;
}

std::optional<Recipe> preset(std::string_view name) {
  Recipe recipe;
  recipe.name = name;
  recipe.steps = {{"rtn", Json::object()}};
  std::string_view rest = name;
  std::optional<Scheme> scheme;
  if (name == "smoothquant-w8a8") {
    scheme = formats::parse_scheme("int8-sym-row-a8");
    recipe.steps = {{"smoothquant", Json::object()}, {"rtn", Json::object()}};
  } else if (name == "f16" || name == "bf16" || name == "mxfp4") {
    scheme = formats::parse_scheme(name);
  } else if (name == "w8a8") {
    scheme = formats::parse_scheme("int8-sym-row-a8");
  } else if (take(rest, "rtn-")) {
    scheme = integer_scheme(rest);
  } else if (take(rest, "gptq-")) {
    scheme = integer_scheme(rest);
    recipe.steps = {{"gptq", Json::object()}};
  } else if (take(rest, "awq-gptq-")) {
    scheme = integer_scheme(rest);
    recipe.steps = {{"awq", {{"clip", false}}}, {"gptq", Json::object()}};
  } else if (take(rest, "awq-")) {
    scheme = integer_scheme(rest);
    recipe.steps = {{"awq", Json::object()}, {"rtn", Json::object()}};
  } else if (take(rest, "nf4")) {
    scheme = book_scheme(rest, formats::Book::kNf4);
  } else if (take(rest, "fp4")) {
    scheme = book_scheme(rest, formats::Book::kFp4);
  } else if (take(rest, "af4")) {
    scheme = book_scheme(rest, formats::Book::kAf4);
  }
  if (!scheme) {
    return std::nullopt;
  }
  recipe.scheme = *scheme;
  return recipe;
}

Recipe from_file(std::string_view path) {
  const Json json = io::load_json_file(std::filesystem::path(path));
  core::require(json.is_object(), ErrorKind::kUsage, "recipe {}: must be a JSON object", path);
  for (const auto& [key, value] : json.items()) {
    core::require(key == "name" || key == "scheme" || key == "passes", ErrorKind::kUsage,
                  "recipe {}: unknown field '{}' (name, scheme, passes)", path,
                  core::printable(key));
  }
  Recipe recipe;
  recipe.name =
      core::find_string(json, "name", path).value_or(std::filesystem::path(path).stem().string());
  recipe.scheme = formats::parse_scheme(core::get_string(json, "scheme", path));
  const auto passes = json.find("passes");
  core::require(
      passes != json.end() && passes->is_array() && !passes->empty() && passes->size() <= 64,
      ErrorKind::kUsage, "recipe {}: 'passes' must list 1 to 64 passes", path);
  for (const Json& entry : *passes) {
    RecipeStep step;
    if (entry.is_string()) {
      step.pass = entry.get<std::string>();
    } else {
      step.pass = core::get_string(entry, "pass", path);
      step.options = entry;
      step.options.erase("pass");
    }
    recipe.steps.push_back(std::move(step));
  }
  return recipe;
}

// A recipe must end in a pass that rounds, and dense layers have nothing for GPTQ to do.
void validate(const Recipe& recipe) {
  for (const RecipeStep& step : recipe.steps) {
    (void)make_pass(step.pass, step.options);
    core::require(recipe.scheme.kind != FormatKind::kDense || step.pass == "rtn", ErrorKind::kUsage,
                  "recipe '{}': pass '{}' needs a scheme with fewer than 16 bits",
                  core::printable(recipe.name), step.pass);
  }
}

}  // namespace

std::vector<std::string> recipe_names() {
  return {"f16",        "bf16",        "w8a8",       "mxfp4",          "nf4g64",
          "fp4g64",     "af4g64",      "rtn-w4g128", "rtn-w4g128-sym", "rtn-w3g128",
          "rtn-w8g128", "gptq-w4g128", "gptq-w3g128",    "awq-w4g128",     "smoothquant-w8a8"};
}

Recipe find_recipe(std::string_view name_or_file) {
  Recipe recipe;
  if (name_or_file.ends_with(".json")) {
    recipe = from_file(name_or_file);
  } else if (auto found = preset(name_or_file)) {
    recipe = *std::move(found);
  } else {
    core::fail(ErrorKind::kUsage,
               "recipe '{}' is not known; built are {} (any group size, or row), or a .json file",
               core::printable(name_or_file), fmt::join(recipe_names(), ", "));
  }
  validate(recipe);
  return recipe;
}

Json to_json(const Recipe& recipe) {
  Json passes = Json::array();
  for (const RecipeStep& step : recipe.steps) {
    Json entry = step.options;
    entry["pass"] = step.pass;
    passes.push_back(std::move(entry));
  }
  return {{"name", recipe.name},
          {"scheme", formats::to_string(recipe.scheme)},
          {"passes", std::move(passes)}};
}

}  // namespace nibble::compress
