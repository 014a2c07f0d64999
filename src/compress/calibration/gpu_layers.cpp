#include "compress/calibration/gpu_layers.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kMultiple = 16;  // of groups that kernels of models take

}  // namespace

std::string_view gpu_calibration_problem(const formats::Scheme& scheme) {
  const formats::Activation& activation = scheme.activation;
  if (activation.is_float()) {
    return scheme.inputs == formats::Inputs()
               ? ""
               : "inputs that are turned or reordered and stay floats do not run on a GPU yet";
  }
  if (activation.stored_scale) {
    return "stored scales of activations need counts of magnitudes, which a GPU does not make yet";
  }
  if (activation.type->activations != &formats::kIntegerCodes) {
    return "activations in E4M3 do not run on a GPU yet";
  }
  if (!formats::is_integer(scheme) && !formats::has_book(scheme)) {
    return "rounded activations run on a GPU with integers and books alone";
  }
  if (scheme.sparsity != formats::Sparsity::kNone ||
      scheme.scale.type != formats::ScaleType::kF16 || formats::has_minima(scheme)) {
    return "rounded activations run on a GPU with weights that are all stored, fp16 scales and no "
           "minima";
  }
  if (scheme.scale.group % kMultiple != 0 || activation.group % kMultiple != 0) {
    return "rounded activations run on a GPU with groups of multiples of 16 inputs";
  }
  return "";
}

}  // namespace nibble::compress
