#pragma once

#include "compress/pipeline/pipeline.h"
#include "core/json_type.h"

namespace nibble::compress {

/// Everything that decides the bytes of a compressed model: an interrupted job goes on only with
/// the same.
core::Json job_of(const models::Model& model, const Recipe& recipe, const PipelineOptions& options);

}  // namespace nibble::compress
