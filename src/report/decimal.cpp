#include "report/decimal.h"

#include <cmath>

#include <fmt/format.h>

namespace nibble::report {

std::string decimal(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  const bool zero = std::isfinite(value) && text.find_first_of("123456789") == std::string::npos;
  return zero && text.front() == '-' ? text.substr(1) : text;
}

}  // namespace nibble::report
