#include "io/gguf_value.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/error.h"

namespace nibble::io {
namespace {

using core::ErrorKind;
using core::printable;
using core::require;

constexpr std::array<std::string_view, 12> kTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "u64", "i64", "f64"};
static_assert(std::variant_size_v<GgufValue::Storage> == 2 * kTypeNames.size());

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <typename T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <typename T>
std::optional<std::int64_t> to_int64(T value) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
  }
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::string GgufValue::type_name() const {
  const std::size_t index = value_.index();
  return index < kTypeNames.size() ? std::string(kTypeNames[index])
                                   : std::string(kTypeNames[index - kTypeNames.size()]) + " array";
}

std::optional<std::int64_t> GgufValue::as_integer() const {
  return std::visit(
      [](const auto& value) -> std::optional<std::int64_t> {
        if constexpr (kIsInteger<std::decay_t<decltype(value)>>) {
          return to_int64(value);
        } else {
          return std::nullopt;
        }
      },
      value_);
}

std::optional<double> GgufValue::as_number() const {
  return std::visit(
      [](const auto& value) -> std::optional<double> {
        if constexpr (kIsNumber<std::decay_t<decltype(value)>>) {
          return static_cast<double>(value);
        } else {
          return std::nullopt;
        }
      },
      value_);
}

std::optional<bool> GgufValue::as_bool() const {
  const bool* value = std::get_if<bool>(&value_);
  return value == nullptr ? std::nullopt : std::optional<bool>(*value);
}

const std::string* GgufValue::as_string() const {
  return std::get_if<std::string>(&value_);
}

const std::vector<std::string>* GgufValue::as_strings() const {
  return std::get_if<std::vector<std::string>>(&value_);
}

std::optional<std::vector<std::int64_t>> GgufValue::as_integers() const {
  return std::visit(
      [](const auto& values) -> std::optional<std::vector<std::int64_t>> {
        if constexpr (requires { typename std::decay_t<decltype(values)>::value_type; }) {
          using T = typename std::decay_t<decltype(values)>::value_type;
          if constexpr (kIsInteger<T> && !std::is_same_v<T, char>) {
            std::vector<std::int64_t> result;
            result.reserve(values.size());
            for (const T value : values) {
              const auto integer = to_int64(value);
              if (!integer) {
                return std::nullopt;
              }
              result.push_back(*integer);
            }
            return result;
          }
        }
        return std::nullopt;
      },
      value_);
}

std::optional<std::vector<double>> GgufValue::as_numbers() const {
  return std::visit(
      [](const auto& values) -> std::optional<std::vector<double>> {
        if constexpr (requires { typename std::decay_t<decltype(values)>::value_type; }) {
          using T = typename std::decay_t<decltype(values)>::value_type;
          if constexpr (kIsNumber<T> && !std::is_same_v<T, char>) {
            return std::vector<double>(values.begin(), values.end());
          }
        }
        return std::nullopt;
      },
      value_);
}

std::optional<std::vector<bool>> GgufValue::as_bools() const {
  const auto* values = std::get_if<std::vector<bool>>(&value_);
  return values == nullptr ? std::nullopt : std::optional<std::vector<bool>>(*values);
}

std::optional<std::int64_t> GgufValue::array_size() const {
  return std::visit(
      [](const auto& values) -> std::optional<std::int64_t> {
        using T = std::decay_t<decltype(values)>;
        if constexpr (requires { values.size(); } && !std::is_same_v<T, std::string>) {
          return static_cast<std::int64_t>(values.size());
        } else {
          return std::nullopt;
        }
      },
      value_);
}

bool GgufMetadata::insert(std::string key, GgufValue value) {
  return values_.emplace(std::move(key), std::move(value)).second;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

std::optional<std::int64_t> GgufMetadata::find_integer(std::string_view key, std::int64_t min,
                                                       std::int64_t max) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const auto integer = value->as_integer();
  if (!integer) {
    fail_type(key, "an integer");
  }
  require(*integer >= min && *integer <= max, ErrorKind::kInvalidModel,
          "{}: '{}' is {}, must be {} to {}", what_, printable(key), *integer, min, max);
  return integer;
}

std::optional<double> GgufMetadata::find_number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const auto number = value->as_number();
  if (!number || !std::isfinite(*number)) {
    fail_type(key, "a finite number");
  }
  return number;
}

std::optional<bool> GgufMetadata::find_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value != nullptr && !value->as_bool()) {
    fail_type(key, "true or false");
  }
  return value == nullptr ? std::nullopt : value->as_bool();
}

const std::string* GgufMetadata::find_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value != nullptr && value->as_string() == nullptr) {
    fail_type(key, "a string");
  }
  return value == nullptr ? nullptr : value->as_string();
}

const std::vector<std::string>* GgufMetadata::find_strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value != nullptr && value->as_strings() == nullptr) {
    fail_type(key, "an array of strings");
  }
  return value == nullptr ? nullptr : value->as_strings();
}

std::optional<std::vector<std::int64_t>> GgufMetadata::find_integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  auto integers = value->as_integers();
  if (!integers) {
    fail_type(key, "an array of integers");
  }
  return integers;
}

std::optional<std::vector<double>> GgufMetadata::find_numbers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  auto numbers = value->as_numbers();
  if (!numbers) {
    fail_type(key, "an array of numbers");
  }
  return numbers;
}

std::int64_t GgufMetadata::get_integer(std::string_view key, std::int64_t min,
                                       std::int64_t max) const {
  const auto value = find_integer(key, min, max);
  require_found(value.has_value(), key);
  return *value;
}

double GgufMetadata::get_number(std::string_view key) const {
  const auto value = find_number(key);
  require_found(value.has_value(), key);
  return *value;
}

const std::string& GgufMetadata::get_string(std::string_view key) const {
  const std::string* value = find_string(key);
  require_found(value != nullptr, key);
  return *value;
}

const std::vector<std::string>& GgufMetadata::get_strings(std::string_view key) const {
  const std::vector<std::string>* value = find_strings(key);
  require_found(value != nullptr, key);
  return *value;
}

void GgufMetadata::fail_type(std::string_view key, std::string_view expected) const {
  core::fail(ErrorKind::kInvalidModel, "{}: '{}' must be {}, it is {}", what_, printable(key),
             expected, find(key)->type_name());
}

void GgufMetadata::require_found(bool found, std::string_view key) const {
  require(found, ErrorKind::kInvalidModel, "{}: '{}' is missing", what_, printable(key));
}

}  // namespace nibble::io
