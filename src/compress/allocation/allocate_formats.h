#pragma once

#include <map>
#include <string>

#include "compress/allocation/sensitivity.h"
#include "compress/calibration/calibration.h"
#include "compress/recipe/recipe.h"
#include "core/progress.h"
#include "core/threads.h"
#include "models/model.h"

namespace nibble::compress {

/// Windows that sensitivities are measured on, at most.
inline constexpr std::int64_t kSensitivityWindows = 32;

/// The recipe with a scheme for every layer instead of its target: of all schemes that it offers,
/// those with the least predicted loss of the model that keep to the target. Layers that
/// Recipe::layers names keep their scheme. Says through `progress` what came out.
///
/// Throws kUsage for a target that is too small, with the smallest that is possible.
Recipe allocate_formats(const models::Network& network, const Recipe& recipe,
                        const std::map<std::string, LayerSensitivity>& sensitivity,
                        core::ThreadPool& pool, core::ProgressSink& progress);

/// The same with sensitivities measured on the first calibration windows.
Recipe allocate_formats(const models::Model& model, const Recipe& recipe,
                        const CalibrationOptions& calibration, core::ProgressSink& progress);

}  // namespace nibble::compress
