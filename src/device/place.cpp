#include "device/place.h"

#include <charconv>

#include <fmt/format.h>

#include "core/error.h"

namespace nibble::device {
namespace {

constexpr std::string_view kCuda = "cuda";
constexpr std::size_t kMostDigits = 3;

}  // namespace

Place parse_place(std::string_view text) {
  if (text == "cpu") {
    return {};
  }
  if (text == kCuda) {
    return {Kind::kCuda, 0};
  }
  Place place{Kind::kCuda, 0};
  const std::string_view digits =
      text.starts_with("cuda:") ? text.substr(kCuda.size() + 1) : std::string_view();
  const auto [end, status] =
      std::from_chars(digits.data(), digits.data() + digits.size(), place.index);
  const bool is_number = !digits.empty() && digits.size() <= kMostDigits && status == std::errc() &&
                         end == digits.data() + digits.size() && place.index >= 0;
  core::require(is_number, core::ErrorKind::kUsage,
                "device '{}' is not known; use cpu, cuda, or cuda:1 for the second GPU",
                core::printable(text));
  return place;
}

std::string to_string(const Place& place) {
  if (!place.on_gpu()) {
    return "cpu";
  }
  return place.index == 0 ? std::string(kCuda) : fmt::format("{}:{}", kCuda, place.index);
}

}  // namespace nibble::device
