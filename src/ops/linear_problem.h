#pragma once

#include <cstdint>
#include <optional>

#include "formats/scheme.h"
#include "ops/layer_kinds.h"

namespace nibble::ops {

/// What happens to a product on its way to memory.
struct Epilogue {
  bool adds = false;  // y is added to what is there: the residual stream
  std::optional<MlpActivation> gate =
      std::nullopt;   // activation(gate) * up, of rows of gate and up in pairs; as float16
  bool half = false;  // rounded to float16
  std::optional<MlpActivation> activation = std::nullopt;  // of y, before it is rounded: with half
  bool codes =
      false;  // with half: rounded on to INT8, by the scale that stands with the next layer
  bool blocks = false;  // rounded as it travels, and sent to another device that adds it
};

/// A linear layer, y[m, n] = x[m, k] W^T + bias, as the choice of its kernel sees it.
struct LinearProblem {
  formats::Scheme scheme;
  std::int64_t n = 0;
  std::int64_t k = 0;  // with the inputs of a tail
  std::int64_t m = 1;  // tokens
  bool pairs = false;  // rows of gate and up stand in pairs
  bool exact = false;  // activations of dense weights stay in float32, whatever the weights are
  Epilogue epilogue = {};
};

}  // namespace nibble::ops
