#pragma once

#include <optional>
#include <span>
#include <vector>

#include "formats/packed_weight.h"
#include "ops/layer_kinds.h"

/// What a layer of a chain computes, in plain loops on the host and in double.
namespace nibble::ops::cuda {

struct ReferenceLayer {
  const formats::PackedWeight* weight = nullptr;
  std::span<const float> bias = {};  // [n] or none
  std::span<const float> norm = {};  // [k]: weights of an RMSNorm of x, or none
  float eps = 0.0f;
  std::optional<MlpActivation> gate = {};  // of rows in pairs: eight of gate, eight of up, ...
  std::span<const double> added_to = {};   // what the result is added to, or nothing
};

/// y of one token x [k]. `magnitude` receives the magnitudes of what is summed for each row of the
/// weight [n], by which an error can be judged.
std::vector<double> chained_reference(const ReferenceLayer& layer, std::span<const double> x,
                                      std::vector<double>& magnitude);

}  // namespace nibble::ops::cuda
