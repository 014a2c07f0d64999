#include "jinja/template.h"

#include "characters/utf8.h"
#include "core/json.h"
#include "jinja/from_json.h"
#include "jinja/interpreter.h"
#include "jinja/limits.h"
#include "jinja/parser.h"

namespace nibble::jinja {

using core::ErrorKind;

struct Template::Parsed {
  Block block;
};

Template::Template(std::string_view source) {
  core::require(source.size() <= kMaxSourceBytes, ErrorKind::kInvalidModel,
                "chat template: {} bytes, more than {}", source.size(), kMaxSourceBytes);
  core::require(characters::is_valid_utf8(source), ErrorKind::kInvalidModel,
                "chat template: not valid UTF-8");
  parsed_ = std::make_unique<const Parsed>(Parsed{parse_template(source)});
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(std::span<const Variable> variables,
                             std::int64_t now_unix_seconds) const {
  std::vector<Value> values;
  std::int64_t bytes = 0;
  for (const Variable& variable : variables) {
    values.push_back(from_json(*variable.value, bytes));
  }
  Runtime runtime(bytes, now_unix_seconds);
  Interpreter interpreter(runtime);
  for (std::size_t i = 0; i < values.size(); ++i) {
    interpreter.define(variables[i].name, std::move(values[i]));
  }
  return interpreter.render(parsed_->block);
}

}  // namespace nibble::jinja
