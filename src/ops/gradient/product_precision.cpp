#include "ops/gradient/product_precision.h"

#include <array>
#include <utility>

#include "core/error.h"

namespace nibble::ops::gradient {
namespace {

constexpr std::array<std::pair<std::string_view, ProductPrecision>, 3> kWords = {{
    {"float32", ProductPrecision::kFloat32},
    {"tf32", ProductPrecision::kTf32},
    {"bf16", ProductPrecision::kBfloat16},
}};

}  // namespace

ProductPrecision parse_precision(std::string_view word) {
  for (const auto& [known, precision] : kWords) {
    if (word == known) {
      return precision;
    }
  }
  core::fail(core::ErrorKind::kUsage, "unknown precision {}: take bf16, tf32 or float32",
             core::printable(word));
}

std::string_view to_string(ProductPrecision precision) {
  for (const auto& [word, known] : kWords) {
    if (precision == known) {
      return word;
    }
  }
  return "";
}

}  // namespace nibble::ops::gradient
