#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include "compress/calibration/calibration_inputs.h"
#include "compress/calibration/output_curvature.h"
#include "core/progress.h"
#include "models/network.h"
#include "models/weight_source.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// measure_curvature() for a job that may be interrupted: what an earlier run has left in `file`,
/// bit for bit, or else what is measured here and then kept there. `source` holds the weights of
/// `network`, the model as it was read.
///
/// The file appears when it is complete. It is a safetensors file:
///   "<set id>.<layer>"        F32 [values]: OutputCurvature::values() of the layers of a set
///   "<set id>.token_weights"  F32 [tokens of all windows]
///   metadata: "fingerprint" of what it was measured on (the bytes of the model's files, windows,
///   seed, with the output layer or without); "content": hash64 of the tensors' hash64
///
/// Throws as measure_curvature(); kIo; kIntegrity for a file with another fingerprint, and for one
/// that is damaged.
std::map<int, SetCurvature> kept_or_measured_curvature(
    const std::filesystem::path& file, const models::WeightSource& source,
    const models::Network& network, const CalibrationInputs& inputs, std::uint64_t seed,
    ops::cpu::CpuOps& ops, core::ProgressSink& progress, bool of_output);

}  // namespace nibble::compress
