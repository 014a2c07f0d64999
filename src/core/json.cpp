#include "core/json.h"

#include <cmath>

#include <simdjson.h>

namespace nibble::core {
namespace {

Json convert(const simdjson::dom::element& element, std::string_view what);

Json convert_object(const simdjson::dom::object& object, std::string_view what) {
  Json result = Json::object();
  for (const auto [key, value] : object) {
    const auto [at, inserted] = result.emplace(std::string(key), nullptr);
    require(inserted, ErrorKind::kInvalidModel, "{}: the key '{}' stands twice in one object", what,
            printable(key));
    *at = convert(value, what);
  }
  return result;
}

Json convert(const simdjson::dom::element& element, std::string_view what) {
  using simdjson::dom::element_type;
  switch (element.type()) {
    case element_type::OBJECT:
      return convert_object(element.get_object().value_unsafe(), what);
    case element_type::ARRAY: {
      Json result = Json::array();
      const simdjson::dom::array values = element.get_array().value_unsafe();
      for (const auto value : values) {
        result.push_back(convert(value, what));
      }
      return result;
    }
    case element_type::STRING:
      return std::string(element.get_string().value_unsafe());
    case element_type::INT64:
      return element.get_int64().value_unsafe();
    case element_type::UINT64:
      return element.get_uint64().value_unsafe();
    case element_type::DOUBLE:
      return element.get_double().value_unsafe();
    case element_type::BOOL:
      return element.get_bool().value_unsafe();
    case element_type::NULL_VALUE:
      return nullptr;
  }
  return nullptr;
}

const Json* find(const Json& object, std::string_view key, std::string_view what) {
  require(object.is_object(), ErrorKind::kInvalidModel, "{}: expected an object with '{}'", what,
          key);
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  simdjson::dom::parser parser;
  if (const auto error = parser.allocate(text.size() + 1, kMaxJsonDepth);
      error != simdjson::SUCCESS) {
    fail(ErrorKind::kInvalidModel, "{}: {}", what, simdjson::error_message(error));
  }
  simdjson::dom::element root;
  const auto error = parser.parse(text.data(), text.size(), true).get(root);
  require(error == simdjson::SUCCESS, ErrorKind::kInvalidModel, "{}: not valid JSON ({})", what,
          simdjson::error_message(error));
  return convert(root, what);
}

std::optional<std::int64_t> find_integer(const Json& object, std::string_view key,
                                         std::string_view what, std::int64_t min,
                                         std::int64_t max) {
  const Json* value = find(object, key, what);
  if (value == nullptr) {
    return std::nullopt;
  }
  std::int64_t number = 0;
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    number = INT64_MAX;
  } else if (value->is_number_integer()) {
    number = value->get<std::int64_t>();
  } else {
    const double real = value->is_number_float() ? value->get<double>() : std::nan("");
    require(std::floor(real) == real && std::fabs(real) < 9e15, ErrorKind::kInvalidModel,
            "{}: '{}' must be an integer, got {}", what, key,
            printable(value->dump(-1, ' ', true)));
    number = static_cast<std::int64_t>(real);
  }
  require(number >= min && number <= max, ErrorKind::kInvalidModel,
          "{}: '{}' is {}, must be {} to {}", what, key, number, min, max);
  return number;
}

std::optional<double> find_number(const Json& object, std::string_view key, std::string_view what) {
  const Json* value = find(object, key, what);
  if (value == nullptr) {
    return std::nullopt;
  }
  require(value->is_number() && std::isfinite(value->get<double>()), ErrorKind::kInvalidModel,
          "{}: '{}' must be a finite number, got {}", what, key,
          printable(value->dump(-1, ' ', true)));
  return value->get<double>();
}

std::optional<bool> find_bool(const Json& object, std::string_view key, std::string_view what) {
  const Json* value = find(object, key, what);
  if (value == nullptr) {
    return std::nullopt;
  }
  require(value->is_boolean(), ErrorKind::kInvalidModel, "{}: '{}' must be true or false, got {}",
          what, key, printable(value->dump(-1, ' ', true)));
  return value->get<bool>();
}

std::optional<std::string> find_string(const Json& object, std::string_view key,
                                       std::string_view what) {
  const Json* value = find(object, key, what);
  if (value == nullptr) {
    return std::nullopt;
  }
  require(value->is_string(), ErrorKind::kInvalidModel, "{}: '{}' must be a string, got {}", what,
          key, printable(value->dump(-1, ' ', true)));
  return value->get<std::string>();
}

std::int64_t get_integer(const Json& object, std::string_view key, std::string_view what,
                         std::int64_t min, std::int64_t max) {
  const auto value = find_integer(object, key, what, min, max);
  require(value.has_value(), ErrorKind::kInvalidModel, "{}: '{}' is missing", what, key);
  return *value;
}

std::string get_string(const Json& object, std::string_view key, std::string_view what) {
  auto value = find_string(object, key, what);
  require(value.has_value(), ErrorKind::kInvalidModel, "{}: '{}' is missing", what, key);
  return *std::move(value);
}

}  // namespace nibble::core
