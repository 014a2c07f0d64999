#include "tune/parameter.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"

namespace nibble::tune {
namespace {

// Infinities and NaN have the largest magnitudes, as integers.
bool all_finite(const std::vector<float>& values) {
  constexpr std::uint32_t kMagnitude = 0x7fffffff;
  constexpr std::uint32_t kInfinity = 0x7f800000;
  std::uint32_t most = 0;
  for (const float value : values) {
    most = std::max(most, std::bit_cast<std::uint32_t>(value) & kMagnitude);
  }
  return most < kInfinity;
}

// `broken`: a parameter whose gradient is not finite; null: there is none.
void require_none(double loss, const Parameter* broken, std::int64_t step) {
  if (broken != nullptr) {
    core::fail(core::ErrorKind::kFailed,
               "step {}: the gradient at {} is not finite (loss {}); take a lower --lr", step,
               core::printable(broken->name), loss);
  }
  core::require(std::isfinite(loss), core::ErrorKind::kFailed,
                "step {}: the loss is {}; take a lower --lr", step, loss);
}

}  // namespace

std::int64_t count_of(const Parameters& parameters) {
  std::int64_t count = 0;
  for (const auto& parameter : parameters) {
    count += std::ssize(parameter->values);
  }
  return count;
}

void require_finite(double loss, const Parameters& parameters, std::int64_t step) {
  const auto broken = std::find_if(parameters.begin(), parameters.end(), [](const auto& parameter) {
    return !all_finite(parameter->gradient);
  });
  require_none(loss, broken != parameters.end() ? broken->get() : nullptr, step);
}

// A sum of squares is finite only where all of them are; that of finite floats fits a double.
void require_finite(double loss, const Parameters& parameters, std::span<const double> squares,
                    std::int64_t step) {
  const auto broken = std::find_if(squares.begin(), squares.end(),
                                   [](double square) { return !std::isfinite(square); });
  require_none(loss,
               broken != squares.end()
                   ? parameters[static_cast<std::size_t>(broken - squares.begin())].get()
                   : nullptr,
               step);
}

}  // namespace nibble::tune
