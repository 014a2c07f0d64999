#pragma once

#include <string>

namespace nibble::report {

/// A value with so many digits behind the point. What is rounded to zero has no sign.
std::string decimal(double value, int digits);

}  // namespace nibble::report
