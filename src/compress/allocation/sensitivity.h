#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compress/calibration/calibration_inputs.h"
#include "core/progress.h"
#include "core/threads.h"
#include "formats/packed_weight.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// How the loss of the whole model feels errors of one layer's weights, to second order. Errors
/// e_ij that do not depend on each other cost sum over i, j of outputs[i] * inputs[j] * e_ij^2, in
/// nats for each token: the diagonal of a Kronecker-factored Fisher matrix (K-FAC, arXiv
/// 1503.05671, section 3), times what makes its trace the one of the whole Fisher matrix, in which
/// the errors of several tokens come together (attention averages the errors of values).
struct LayerSensitivity {
  std::vector<double> outputs;  // [n]: half the mean square of the gradient, times that factor
  std::vector<double> inputs;   // [k]: mean square, tokens weighted with |gradient|^2
};

/// Of every linear layer of the blocks, by prefix, from gradients that the model itself draws
/// (sample_gradients, which says what is thrown).
std::map<std::string, LayerSensitivity> measure_sensitivity(const models::Network& network,
                                                            const CalibrationInputs& inputs,
                                                            std::uint64_t seed,
                                                            ops::cpu::CpuOps& ops,
                                                            core::ProgressSink& progress);

/// What rounding a dense weight to the nearest values of a scheme would cost, in nats for each
/// token. A learned book counts as integers with a zero point, of the same bits and groups.
double predicted_loss(const LayerSensitivity& sensitivity, const formats::PackedWeight& weight,
                      const formats::Scheme& scheme, core::ThreadPool& pool);

}  // namespace nibble::compress
