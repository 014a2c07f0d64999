#include "tune/parameter.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::tune {
namespace {

// The first parameter with a gradient that is not finite; null where there is none.
const Parameter* first_broken(const Parameters& parameters) {
  for (const auto& parameter : parameters) {
    // A sum of squares is finite only where all of them are; that of finite floats fits a double.
    double sum = 0;
    for (const float value : parameter->gradient) {
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
    if (!std::isfinite(sum)) {
      return parameter.get();
    }
  }
  return nullptr;
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
  const Parameter* const broken = first_broken(parameters);
  if (broken != nullptr) {
    core::fail(core::ErrorKind::kFailed,
               "step {}: the gradient at {} is not finite (loss {}); take a lower --lr", step,
               core::printable(broken->name), loss);
  }
  core::require(std::isfinite(loss), core::ErrorKind::kFailed,
                "step {}: the loss is {}; take a lower --lr", step, loss);
}

}  // namespace nibble::tune
