#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/json_type.h"

namespace nibble::jinja {

/// Templates print objects, and walk over them, in the order of their keys.
using core::OrderedJson;

/// One variable of a rendering. Both must outlive the call.
struct Variable {
  std::string_view name;
  const OrderedJson* value = nullptr;
};

/// A chat template in the subset of Jinja2 that published ones use, with the settings and functions
/// that Hugging Face transformers gives them (trim_blocks, lstrip_blocks, loop controls, tojson,
/// raise_exception, strftime_now).
///
/// Templates come with models and are not trusted: they see nothing but their variables, cannot
/// change those, and run within budgets of steps, text and depth (limits.h). Immutable: one object
/// may render in many threads.
class Template {
 public:
  /// Parses. Throws kInvalidModel, naming the place, for what is no template or uses tags outside
  /// of the subset.
  explicit Template(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// The text that the template makes; of two variables with one name the later counts.
  /// `now_unix_seconds` is what strftime_now shows, in UTC. Throws kUsage when a variable is not
  /// UTF-8, nests too deep, or is refused by the template (raise_exception), kInvalidModel when the
  /// template fails or exceeds its budget.
  std::string render(std::span<const Variable> variables, std::int64_t now_unix_seconds) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace nibble::jinja
