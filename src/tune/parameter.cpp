#include "tune/parameter.h"

#include <cmath>

#include "core/error.h"

namespace nibble::tune {

std::int64_t count_of(const Parameters& parameters) {
  std::int64_t count = 0;
  for (const auto& parameter : parameters) {
    count += std::ssize(parameter->values);
  }
  return count;
}

void require_finite(double loss, const Parameters& parameters, std::int64_t step) {
  std::vector<double> squares;
  for (const auto& parameter : parameters) {
    double sum = 0;
    for (const float value : parameter->gradient) {
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
    squares.push_back(sum);
  }
  require_finite(loss, parameters, squares, step);
}

// A sum of squares is finite only where all of them are; that of finite floats fits a double.
void require_finite(double loss, const Parameters& parameters, std::span<const double> squares,
                    std::int64_t step) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    core::require(std::isfinite(squares[p]), core::ErrorKind::kFailed,
                  "step {}: the gradient at {} is not finite (loss {}); take a lower --lr", step,
                  core::printable(parameters[p]->name), loss);
  }
  core::require(std::isfinite(loss), core::ErrorKind::kFailed,
                "step {}: the loss is {}; take a lower --lr", step, loss);
}

}  // namespace nibble::tune
