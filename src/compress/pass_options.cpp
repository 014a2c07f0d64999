#include "compress/pass_options.h"

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
                pass_, core::printable(value->dump(-1, ' ', true)), min, max);
  return number;
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
    core::require(used_.contains(key), ErrorKind::kUsage, "recipe: pass '{}' has no option '{}'",
                  pass_, core::printable(key));
  }
}

}  // namespace nibble::compress
