#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/calibration/output_curvature.h"
#include "compress/coding/coded_weight.h"
#include "compress/refine/refine.h"

namespace nibble::compress {

/// The whole matrices of one layer's loss tr(G E H E^T), E being what rounding changed: the loss of
/// the model to second order, its Fisher matrix taken as a Kronecker product of the outputs' and
/// the inputs' (YAQA, arXiv 2505.22988, section 3).
struct ModelObjective {
  const OutputCurvature& outputs;     // G, in blocks
  double damp = 0.1;                  // share of its mean diagonal that is added to each block
  const std::vector<float>& hessian;  // H [k, k] as symmetric_hessian makes it
};

/// refine() for the loss of the model instead of the layer's own: rows of one block of G influence
/// one another, so that the error of one output can make up for another's. Works on block `block`
/// of the outputs; different blocks may run at the same time. A sweep that doesn't lower the loss
/// is undone and ends the work.
void refine_for_model(CodedWeight& coded, std::span<const float> target, std::int64_t k,
                      const formats::Scheme& scheme, const ModelObjective& objective,
                      std::int64_t block, const RefineOptions& options,
                      std::span<const std::uint8_t> kept = {});

}  // namespace nibble::compress
