#include "core/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace nibble::core {
namespace {

constexpr double kMost = 4611686018427387904.0;  // 2^62

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 15> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"K", 1024.0},
                                          {"M", 1048576.0},
                                          {"G", 1073741824.0},
                                          {"T", 1099511627776.0},
                                          {"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0},
                                          {"kB", 1e3},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12}}};

}  // namespace

std::int64_t parse_byte_size(std::string_view text, std::string_view option) {
  double number = 0;
  const bool digit = !text.empty() && text.front() >= '0' && text.front() <= '9';
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : kUnits) {
    const double bytes = number * unit.bytes;
    if (digit && error == std::errc() && unit.name == name && bytes >= 1 && bytes <= kMost) {
      return static_cast<std::int64_t>(bytes);
    }
  }
  fail(ErrorKind::kUsage, "{} '{}' is not a size; give a number and a unit: 6GiB, 500MB, 1.5G",
       option, printable(text));
}

std::string format_byte_size(std::int64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; unit + 1 < kNames.size() && value >= 1024; ++unit) {
    value /= 1024;
  }
  return fmt::format(fmt::runtime(unit == 0 ? "{:.0f} {}" : "{:.1f} {}"), value, kNames[unit]);
}

}  // namespace nibble::core
