#include "ops/gradient/plain_weights.h"

#include <string_view>

#include "core/error.h"

namespace nibble::ops::gradient {
namespace {

// What stands between the input of a layer and its decoded weight; empty: nothing.
std::string_view obstacle(const Linear& layer) {
  if (layer.low_rank) {
    return "an adapter";
  }
  if (layer.weight.scheme.inputs.hadamard != 0) {
    return "an online Hadamard";
  }
  if (layer.weight.scheme.inputs.ordered) {
    return "inputs in an order of their own";
  }
  return layer.weight.scheme.inputs.tail != 0 ? "a tail in INT8" : "";
}

}  // namespace

void require_plain_weights(const LinearSet& set) {
  for (const Linear& part : set.parts) {
    const std::string_view found = obstacle(part);
    core::require(found.empty(), core::ErrorKind::kFailed,
                  "gradients do not pass through layer {}, which has {}; take the model as it was "
                  "before",
                  part.name, found);
  }
}

}  // namespace nibble::ops::gradient
