#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "core/json_type.h"

namespace nibble::compress {

/// Options of one pass in a recipe, {"damp": 0.01}: typed, with defaults, and none left over.
/// Every failure is kUsage and names the pass and the option.
class PassOptions {
 public:
  PassOptions(const core::Json& options, std::string_view pass);

  double number(std::string_view key, double fallback, double min, double max);
  int integer(std::string_view key, int fallback, int min, int max);
  /// One of `words`; the first of them when the option is not given.
  std::string_view choice(std::string_view key, std::initializer_list<std::string_view> words);
  std::string text(std::string_view key, std::string_view fallback);
  bool flag(std::string_view key, bool fallback);

  bool given(std::string_view key) const;

  /// Fails when an option was given that the pass does not know.
  void require_all_used() const;

 private:
  const core::Json* find(std::string_view key);

  const core::Json& options_;
  std::string pass_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace nibble::compress
