#pragma once

#include <filesystem>

#include "core/progress.h"
#include "models/model.h"
#include "tune/tuning_options.h"

namespace nibble::tune {

/// Makes of a compressed decoder a better one of the same schemes: BQPO block by block
/// (tune_block), then E2E-OQP (tune_network), against the float model `teacher` that it was made
/// from. Says before it starts how much memory it takes. An interrupted job goes on with `resume`:
/// behind the last finished block, or the last state of E2E-OQP, to the same bytes.
///
/// Throws kUsage for models that it does not tune: mixtures of experts, encoders, layers in other
/// schemes than require_trainable() says, layers compressed by another tool, and where the two
/// models differ in shape.
void tune_model(const models::Model& compressed, const models::Model& teacher,
                const std::filesystem::path& target, const TuningOptions& options, bool resume,
                core::ProgressSink& progress);

}  // namespace nibble::tune
