#pragma once

#include <optional>
#include <string_view>

#include "formats/activation.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::ops::gradient {

/// How the layers of a set round what they read.
struct InputRounding {
  formats::Activation activation;
  float scale = 0.0f;  // Activation::stored_scale

  /// Whether values that lie far out are cut.
  bool cuts() const { return activation.clip != 1.0f || activation.stored_scale; }
};

/// Throws kUsage, naming the layer, for activations that training on a GPU does not round: other
/// numbers than integers.
void require_rounded_on_gpu(std::string_view layer, const formats::Activation& activation);

/// None: they read it in float. Throws kFailed, naming the first layer, where two layers of a set
/// round differently.
std::optional<InputRounding> rounding_of(const LinearSet& set);

/// x [m, k] as the arithmetic of such layers sees it: rounded by the very code that runs them
/// (quantized_input.h), and back in float.
cpu::Matrix rounded_input(const cpu::Matrix& x, const InputRounding& rounding, cpu::CpuOps& ops);

/// Straight-through estimator (Bengio et al., arXiv 1308.3432): the gradient of rounding is taken
/// for 1. Here it becomes 0 where the value is cut (PACT, arXiv 1805.06085): `gradient`, that of
/// rounded_input(x), becomes that of x.
void cut_gradient(const cpu::Matrix& x, const InputRounding& rounding, cpu::Matrix& gradient,
                  core::ThreadPool& pool);

}  // namespace nibble::ops::gradient
