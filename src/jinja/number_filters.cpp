#include <array>
#include <cmath>

#include <fmt/format.h>

#include "jinja/arithmetic.h"
#include "jinja/filters.h"
#include "jinja/numbers.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
namespace {

constexpr double kIntLimit = 1e38;        // doubles below this convert to Int
constexpr std::int64_t kMaxDigits = 400;  // more decimal places than any double has

// int(value) of a float; nullopt for what has no integer, or none of 128 bits.
std::optional<Int> truncated(double value) {
  return std::fabs(value) < kIntLimit ? std::optional(static_cast<Int>(value)) : std::nullopt;
}

Value to_integer(Call& call) {
  const Value& value = call.self();
  const Value fallback = call.find(0) != nullptr ? call.at(0) : Value::integer(0);
  require_defined(call.runtime(), value);
  if (value.is_integral()) {
    return Value::integer(value.integral());
  }
  std::optional<Int> result;
  if (value.is(Kind::kFloat)) {
    if (std::isinf(value.number())) {
      call.fail("infinity is no integer");
    }
    result = truncated(value.number());
  } else if (value.is_string()) {
    const std::int64_t base = call.integer(1, 10);
    result = base == 0 || (base >= 2 && base <= 36)
                 ? parse_integer(value.bytes(), static_cast<int>(base))
                 : std::nullopt;
    const auto real = result.has_value() ? std::nullopt : parse_real(value.bytes());
    result = real.has_value() ? truncated(*real) : result;
  }
  return result.has_value() ? Value::integer(*result) : fallback;
}

Value to_float(Call& call) {
  const Value& value = call.self();
  require_defined(call.runtime(), value);
  if (value.is_number()) {
    return Value::real(value.number());
  }
  const auto real = value.is_string() ? parse_real(value.bytes()) : std::nullopt;
  if (real.has_value()) {
    return Value::real(*real);
  }
  return call.find(0) != nullptr ? call.at(0) : Value::real(0.0);
}

Value absolute(Call& call) {
  require_defined(call.runtime(), call.self());
  if (call.self().is_integral()) {
    const Value& value = call.self();
    return value.integral() < 0 ? negate(call.runtime(), value) : Value::integer(value.integral());
  }
  if (!call.self().is(Kind::kFloat)) {
    call.fail("needs a number, got a {}", call.self().type_name());
  }
  return Value::real(std::fabs(call.self().number()));
}

// round(value, -digits) of an integer: to the nearest multiple of 10^digits, halves to even.
Int round_integer(Int value, std::int64_t digits) {
  constexpr std::int64_t kDigitsOfInt = 38;
  if (digits > kDigitsOfInt) {
    return 0;
  }
  Int unit = 1;
  for (std::int64_t i = 0; i < digits; ++i) {
    unit *= 10;
  }
  Int rest = value % unit;
  rest += rest < 0 ? unit : 0;
  const Int low = value - rest;
  const bool odd = (low / unit) % 2 != 0;
  const bool up = rest > unit - rest || (rest == unit - rest && odd);
  return up ? low + unit : low;
}

// round(value, digits) of a float: the decimal digits of the exact binary value decide.
double round_real(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > kMaxDigits) {
    return value;
  }
  if (digits >= 0) {
    return parse_real(fmt::format("{:.{}f}", value, digits)).value_or(value);
  }
  if (digits < -kMaxDigits) {
    return std::copysign(0.0, value);
  }
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / unit) * unit;
}

Value round(Call& call) {
  const Value& value = call.self();
  const std::int64_t digits = call.integer(0, 0);
  const std::string method = call.find(1) != nullptr ? call.text(1) : "common";
  require_defined(call.runtime(), value);
  if (!value.is_number()) {
    call.fail("needs a number, got a {}", value.type_name());
  }
  if (method == "common") {
    if (value.is_integral()) {
      return Value::integer(digits >= 0 ? value.integral()
                                        : round_integer(value.integral(), -digits));
    }
    return Value::real(round_real(value.number(), digits));
  }
  if (method != "ceil" && method != "floor") {
    call.fail("the method must be 'common', 'ceil' or 'floor'");
  }
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.number() * unit;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

constexpr std::array<Builtin, 4> kNumberFilters = {{
    {"abs", absolute, 0, {}},
    {"float", to_float, 0, {"default"}},
    {"int", to_integer, 0, {"default", "base"}},
    {"round", round, 0, {"precision", "method"}},
}};

}  // namespace

std::span<const Builtin> number_filters() {
  return kNumberFilters;
}

}  // namespace nibble::jinja
