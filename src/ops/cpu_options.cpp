#include "ops/cpu_options.h"

#include "core/error.h"

namespace nibble::ops {

ActivationPrecision parse_activations(std::string_view text) {
  if (text == "int8") {
    return ActivationPrecision::kInt8;
  }
  if (text == "int16") {
    return ActivationPrecision::kInt16;
  }
  core::require(text == "float", core::ErrorKind::kUsage,
                "activations '{}' are not known; use int8, int16 or float", core::printable(text));
  return ActivationPrecision::kFloat;
}

}  // namespace nibble::ops
