#include "compress/calibration/gpu_layers.h"

#include <fmt/format.h>

#include "ops/cuda/packed/unit_rows.h"

namespace nibble::compress::cuda {

std::string gpu_calibration_problem(const formats::Scheme& scheme) {
  const formats::Activation& activation = scheme.activation;
  if (activation.is_float()) {
    return scheme.inputs == formats::Inputs()
               ? ""
               : "inputs that are turned or reordered and stay floats do not run on a GPU yet";
  }
  if (activation.stored_scale) {
    return "stored scales of activations need counts of magnitudes, which a GPU does not make yet";
  }
  if (!activation.acts_as_integers()) {
    return fmt::format("activations that are {} do not run on a GPU yet", activation.type->name);
  }
  if (scheme.scale.type != formats::ScaleType::kF16 || formats::has_minima(scheme)) {
    return "rounded activations run on a GPU with fp16 scales and no minima";
  }
  const ops::Refusal refused = ops::cuda::unit_refusal(scheme);
  return refused ? refused->text() : "";
}

}  // namespace nibble::compress::cuda
