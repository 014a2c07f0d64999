#include "core/json.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <vector>

#include <simdjson.h>

#include "core/ordered_json.h"

namespace nibble::core {
namespace {

[[noreturn]] void fail_for_key(std::string_view key, std::string_view what) {
  fail(ErrorKind::kInvalidModel, "{}: the key '{}' stands twice in one object", what,
       printable(key));
}

template <typename Target>
Target convert(const simdjson::dom::element& element, std::string_view what);

void convert_members(const simdjson::dom::object& object, Json& result, std::string_view what) {
  for (const auto [key, value] : object) {
    const auto [at, inserted] = result.emplace(std::string(key), nullptr);
    if (!inserted) {
      fail_for_key(key, what);
    }
    *at = convert<Json>(value, what);
  }
}

// Equal keys are looked for once all are there: the type's own emplace compares with each.
void convert_members(const simdjson::dom::object& object, OrderedJson& result,
                     std::string_view what) {
  auto& members = result.get_ref<OrderedJson::object_t&>();
  for (const auto [key, value] : object) {
    members.OrderedJson::object_t::Container::emplace_back(std::string(key),
                                                           convert<OrderedJson>(value, what));
  }
  std::vector<std::string_view> keys;
  keys.reserve(members.size());
  for (const auto& member : members) {
    keys.push_back(member.first);
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) {
    fail_for_key(*twice, what);
  }
}

template <typename Target>
Target convert(const simdjson::dom::element& element, std::string_view what) {
  using simdjson::dom::element_type;
  switch (element.type()) {
    case element_type::OBJECT: {
      Target result = Target::object();
      convert_members(element.get_object().value_unsafe(), result, what);
      return result;
    }
    case element_type::ARRAY: {
      Target result = Target::array();
      const simdjson::dom::array values = element.get_array().value_unsafe();
      for (const auto value : values) {
        result.push_back(convert<Target>(value, what));
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

template <typename Target>
Target parse(std::string_view text, std::string_view what) {
  simdjson::dom::parser parser;
  auto error = parser.allocate(text.size() + 1, kMaxJsonDepth);
  simdjson::dom::element root;
  if (error == simdjson::SUCCESS) {
    error = parser.parse(text.data(), text.size(), true).get(root);
  }
  if (error == simdjson::MEMALLOC) {  // says nothing about the text
    throw std::bad_alloc();
  }
  require(error == simdjson::SUCCESS, ErrorKind::kInvalidModel, "{}: not valid JSON ({})", what,
          simdjson::error_message(error));
  return convert<Target>(root, what);
}

const Json* find(const Json& object, std::string_view key, std::string_view what) {
  require(object.is_object(), ErrorKind::kInvalidModel, "{}: expected an object with '{}'", what,
          key);
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

HeldJson::HeldJson() : value_(std::make_unique<Json>()) {}
HeldJson::HeldJson(const Json* value) : value_(std::make_unique<Json>(*value)) {}
HeldJson::HeldJson(const HeldJson& other) : HeldJson(&*other) {}
HeldJson& HeldJson::operator=(const HeldJson& other) {
  *value_ = *other;
  return *this;
}
HeldJson::~HeldJson() = default;
HeldJson HeldJson::object() {
  return Json::object();
}

std::string JsonText::operator()() const {
  return printable(value.dump(-1, ' ', true)).str();
}

Json parse_json(std::string_view text, std::string_view what) {
  return parse<Json>(text, what);
}

OrderedJson parse_ordered_json(std::string_view text, std::string_view what) {
  return parse<OrderedJson>(text, what);
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
            "{}: '{}' must be an integer, got {}", what, key, printable_json(*value));
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
          "{}: '{}' must be a finite number, got {}", what, key, printable_json(*value));
  return value->get<double>();
}

std::optional<bool> find_bool(const Json& object, std::string_view key, std::string_view what) {
  const Json* value = find(object, key, what);
  if (value == nullptr) {
    return std::nullopt;
  }
  require(value->is_boolean(), ErrorKind::kInvalidModel, "{}: '{}' must be true or false, got {}",
          what, key, printable_json(*value));
  return value->get<bool>();
}

std::optional<std::string> find_string(const Json& object, std::string_view key,
                                       std::string_view what) {
  const Json* value = find(object, key, what);
  if (value == nullptr) {
    return std::nullopt;
  }
  require(value->is_string(), ErrorKind::kInvalidModel, "{}: '{}' must be a string, got {}", what,
          key, printable_json(*value));
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
