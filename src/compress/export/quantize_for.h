#pragma once

#include <filesystem>
#include <string>

#include "compress/export/export_target.h"
#include "compress/pipeline/pipeline.h"
#include "models/exchange/conversion.h"

namespace nibble::compress {

/// What was written for another program.
struct ExportedModel {
  std::string method;
  models::Conversion conversion;
};

/// Quantizes `model` and writes the folder or file `output` for `target`, whose codes and scales
/// are those of the recipe. The quantized model lies in a hidden folder beside `output` until that
/// is complete; a job that ended in between goes on there with `resume`.
///
/// Throws as choose_method() before any work, quantize_model() and models::convert_folder().
ExportedModel quantize_for(const models::Model& model, Recipe recipe, const ExportTarget& target,
                           const std::filesystem::path& output, const PipelineOptions& options,
                           bool resume, core::ProgressSink& progress);

}  // namespace nibble::compress
