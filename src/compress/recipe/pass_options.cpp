#include "compress/recipe/pass_options.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/json.h"
#include "core/nearest_name.h"

namespace nibble::compress {

using core::ErrorKind;

PassOptions::PassOptions(const core::Json& options, std::string_view pass)
    : options_(options), pass_(pass) {
  core::require(options.is_object(), ErrorKind::kUsage,
                "recipe: the options of pass '{}' must be an object", pass);
}

const core::Json* PassOptions::find(std::string_view key) {
  used_.emplace(key);
  const auto at = options_.find(key);
  return at == options_.end() ? nullptr : &*at;
}

double PassOptions::number(std::string_view key, double fallback, double min, double max) {
  const core::Json* value = find(key);
  if (value == nullptr) {
    return fallback;
  }
  const double number = value->is_number() ? value->get<double>() : min - 1;
  core::require(number >= min && number <= max, ErrorKind::kUsage,
                "recipe: option '{}' of pass '{}' is {}, must be a number from {} to {}", key,
                pass_, core::printable_json(*value), min, max);
  return number;
}

int PassOptions::integer(std::string_view key, int fallback, int min, int max) {
  const double number = this->number(key, fallback, min, max);
  core::require(number == std::floor(number), ErrorKind::kUsage,
                "recipe: option '{}' of pass '{}' is {}, must be a whole number", key, pass_,
                number);
  return static_cast<int>(number);
}

std::string_view PassOptions::choice(std::string_view key,
                                     std::initializer_list<std::string_view> words) {
  const core::Json* value = find(key);
  if (value == nullptr) {
    return *words.begin();
  }
  const auto* word = value->is_string()
                         ? std::find(words.begin(), words.end(), value->get<std::string>())
                         : words.end();
  core::require(word != words.end(), ErrorKind::kUsage,
                "recipe: option '{}' of pass '{}' is {}, must be one of {}", key, pass_,
                core::printable_json(*value), fmt::join(words, ", "));
  return *word;
}

std::string PassOptions::text(std::string_view key, std::string_view fallback) {
  const core::Json* value = find(key);
  core::require(value == nullptr || value->is_string(), ErrorKind::kUsage,
                "recipe: option '{}' of pass '{}' must be a text", key, pass_);
  return value == nullptr ? std::string(fallback) : value->get<std::string>();
}

bool PassOptions::given(std::string_view key) const {
  return options_.contains(key);
}

bool PassOptions::flag(std::string_view key, bool fallback) {
  const core::Json* value = find(key);
  if (value == nullptr) {
    return fallback;
  }
  core::require(value->is_boolean(), ErrorKind::kUsage,
                "recipe: option '{}' of pass '{}' must be true or false", key, pass_);
  return value->get<bool>();
}

void PassOptions::require_all_used() const {
  for (const auto& [key, value] : options_.items()) {
    if (!used_.contains(key)) {
      const std::vector<std::string> known(used_.begin(), used_.end());
      core::fail(ErrorKind::kUsage, "recipe: pass '{}' has no option '{}'{}", pass_,
                 core::printable(key), core::suggestion(key, known));
    }
  }
}

}  // namespace nibble::compress
