#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nibble::io {

/// One metadata value of a GGUF file: a number, a truth value, a text, or an array of one of these,
/// in the width that the file gives it.
class GgufValue {
 public:
  using Storage =
      std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                   std::int32_t, float, bool, std::string, std::uint64_t, std::int64_t, double,
                   std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                   std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                   std::vector<float>, std::vector<bool>, std::vector<std::string>,
                   std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>;

  explicit GgufValue(Storage value) : value_(std::move(value)) {}

  /// "u32", "string", "f32 array"
  std::string type_name() const;

  /// Each gives nothing when the value is of another kind. Integers of any width are integers if
  /// they fit; every number is a number; truth values are neither.
  std::optional<std::int64_t> as_integer() const;
  std::optional<double> as_number() const;
  std::optional<bool> as_bool() const;
  const std::string* as_string() const;
  const std::vector<std::string>* as_strings() const;
  std::optional<std::vector<std::int64_t>> as_integers() const;
  std::optional<std::vector<double>> as_numbers() const;
  std::optional<std::vector<bool>> as_bools() const;

  /// Elements of an array, nothing for a single value.
  std::optional<std::int64_t> array_size() const;

  const Storage& storage() const { return value_; }

 private:
  Storage value_;
};

/// All metadata of a GGUF file. The getters throw kInvalidModel naming file and key when the value
/// has another type or lies out of range; find_* give nothing for a missing key, get_* throw.
class GgufMetadata {
 public:
  explicit GgufMetadata(std::string what) : what_(std::move(what)) {}

  /// False when the key is there already.
  bool insert(std::string key, GgufValue value);

  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }
  bool contains(std::string_view key) const { return values_.contains(key); }
  const GgufValue* find(std::string_view key) const;

  std::optional<std::int64_t> find_integer(std::string_view key, std::int64_t min,
                                           std::int64_t max) const;
  std::optional<double> find_number(std::string_view key) const;  // finite
  std::optional<bool> find_bool(std::string_view key) const;
  const std::string* find_string(std::string_view key) const;
  const std::vector<std::string>* find_strings(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> find_integers(std::string_view key) const;
  std::optional<std::vector<double>> find_numbers(std::string_view key) const;

  std::int64_t get_integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  double get_number(std::string_view key) const;
  const std::string& get_string(std::string_view key) const;
  const std::vector<std::string>& get_strings(std::string_view key) const;

 private:
  [[noreturn]] void fail_type(std::string_view key, std::string_view expected) const;
  void require_found(bool found, std::string_view key) const;

  std::string what_;  // the file, for messages
  std::map<std::string, GgufValue, std::less<>> values_;
};

}  // namespace nibble::io
