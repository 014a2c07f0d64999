#pragma once

#include <string>

#include "core/json_type.h"
#include "formats/activation.h"

namespace nibble::formats::exchange {

/// How a checkpoint of compressed-tensors wants the inputs of its layers rounded, in the rules of
/// formats::Activation, and what differs.
///
///   8-bit integers, dynamic, per token   a8: s = max|x| / 127, q in [-127, 127], where
///                                        compressed-tensors has max|x| / 127.5 and [-128, 127]
///   4-bit integers, dynamic, per token   a4 with the clip 7 / 7.5: s = max|x| / 7.5, q in [-8, 7],
///                                        as there
///   8-bit integers, static, per tensor   a8s: q in [-127, 127] instead of [-128, 127]
///   E4M3, dynamic, per token             afp8, beside weights in E4M3
///
/// Asymmetric dynamic ones are a8-asym and a4-asym, whose ranges are the same. Everything else
/// (FP4, static E4M3, groups) stays float, which rounds less than the checkpoint was made for.
struct ActivationRule {
  Activation activation = {};
  std::string remark;  // what differs; empty: nothing does
};

/// `arguments`: "input_activations" of a scheme, or null. `fp8`: weights are E4M3.
ActivationRule read_activation_rule(const core::Json& arguments, bool fp8);

}  // namespace nibble::formats::exchange
