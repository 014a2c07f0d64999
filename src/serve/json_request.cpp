#include "serve/json_request.h"

#include <algorithm>
#include <cmath>

#include <simdjson.h>

#include "characters/utf8.h"
#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/api_error.h"

namespace nibble::serve {
namespace {

namespace dom = simdjson::dom;

[[noreturn]] void malformed(const std::string& why) {
  throw ApiError(400, "invalid_request_error", "the body is not valid JSON: " + why, "",
                 "invalid_json");
}

std::string checked(std::string_view text) {
  if (!characters::is_valid_utf8(text)) {
    malformed("a string holds half of a surrogate pair");
  }
  return std::string(text);
}

OrderedJson convert(const dom::element& element);

void check_keys(const OrderedJson& object) {
  std::vector<std::string_view> keys;
  keys.reserve(object.size());
  for (const auto& item : object.get_ref<const OrderedJson::object_t&>()) {
    keys.push_back(item.first);
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) {
    refuse(core::printable(*twice), "the key '{}' stands twice in one object",
           core::printable(*twice));
  }
}

OrderedJson convert_object(const dom::object& object) {
  OrderedJson result = OrderedJson::object();
  auto& items = result.get_ref<OrderedJson::object_t&>();
  for (const auto [key, value] : object) {
    // Its own emplace looks through all keys each time; doubles are looked for once, below.
    items.OrderedJson::object_t::Container::emplace_back(checked(key), convert(value));
  }
  check_keys(result);
  return result;
}

OrderedJson convert(const dom::element& element) {
  using dom::element_type;
  switch (element.type()) {
    case element_type::OBJECT:
      return convert_object(element.get_object().value_unsafe());
    case element_type::ARRAY: {
      OrderedJson result = OrderedJson::array();
      const dom::array values = element.get_array().value_unsafe();
      for (const auto value : values) {
        result.push_back(convert(value));
      }
      return result;
    }
    case element_type::STRING:
      return checked(element.get_string().value_unsafe());
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

}  // namespace

OrderedJson parse_request(std::string_view body) {
  if (body.empty()) {
    malformed("it is empty");
  }
  dom::parser parser;
  auto error = parser.allocate(body.size() + 1, kMaxRequestDepth);
  dom::element root;
  if (error == simdjson::SUCCESS) {
    error = parser.parse(body.data(), body.size(), true).get(root);
  }
  if (error == simdjson::MEMALLOC) {
    throw plain_error(503, "out of memory for the request; try again later");
  }
  if (error != simdjson::SUCCESS) {
    malformed(simdjson::error_message(error));
  }
  if (!root.is_object()) {
    malformed("an object is expected");
  }
  return convert(root);
}

const char* type_name(const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::null:
      return "null";
    case OrderedJson::value_t::object:
      return "an object";
    case OrderedJson::value_t::array:
      return "an array";
    case OrderedJson::value_t::string:
      return "a string";
    case OrderedJson::value_t::boolean:
      return "true or false";
    case OrderedJson::value_t::number_float:
      return "a number with a fraction or an exponent";
    default:
      return "an integer";
  }
}

Fields::Fields(const OrderedJson& object, std::string path)
    : object_(&object), path_(std::move(path)) {}

const OrderedJson* Fields::find(const char* name) const {
  const auto at = object_->find(name);
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

std::optional<bool> Fields::boolean(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    refuse(path(name), "'{}' must be true or false, not {}", path(name), type_name(*value));
  }
  return value->get<bool>();
}

namespace {

std::int64_t integer_of(const OrderedJson& value, const std::string& param, std::int64_t least,
                        std::int64_t most) {
  if (!value.is_number_integer()) {
    refuse(param, "'{}' must be an integer, not {}", param, type_name(value));
  }
  const bool huge = value.is_number_unsigned() &&
                    value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = huge ? INT64_MAX : value.get<std::int64_t>();
  if (huge || number < least || number > most) {
    refuse(param, "'{}' is {}, must be {} to {}", param, to_text(value), least, most);
  }
  return number;
}

}  // namespace

std::optional<std::int64_t> Fields::integer(const char* name, std::int64_t least,
                                            std::int64_t most) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  return integer_of(*value, path(name), least, most);
}

std::optional<double> Fields::number(const char* name, double least, double most) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number()) {
    refuse(path(name), "'{}' must be a number, not {}", path(name), type_name(*value));
  }
  const auto number = value->get<double>();
  if (!(number >= least && number <= most)) {
    refuse(path(name), "'{}' is {}, must be {} to {}", path(name), number, least, most);
  }
  return number;
}

std::optional<std::string> Fields::string(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    refuse(path(name), "'{}' must be a string, not {}", path(name), type_name(*value));
  }
  return value->get<std::string>();
}

std::optional<Fields> Fields::object(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_object()) {
    refuse(path(name), "'{}' must be an object, not {}", path(name), type_name(*value));
  }
  return Fields(*value, path(name) + ".");
}

std::vector<std::int32_t> integers_of(const OrderedJson& json, const std::string& param,
                                      std::int32_t least, std::int32_t most, std::size_t count) {
  if (!json.is_array()) {
    refuse(param, "'{}' must be an array of integers, not {}", param, type_name(json));
  }
  if (json.size() > count) {
    refuse(param, "'{}' has {} entries, at most {} are allowed", param, json.size(), count);
  }
  std::vector<std::int32_t> numbers;
  numbers.reserve(json.size());
  for (const OrderedJson& value : json) {
    numbers.push_back(static_cast<std::int32_t>(integer_of(value, param, least, most)));
  }
  return numbers;
}

std::optional<std::vector<std::int32_t>> Fields::integers(const char* name, std::int32_t least,
                                                          std::int32_t most,
                                                          std::size_t count) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  return integers_of(*value, path(name), least, most, count);
}

}  // namespace nibble::serve
