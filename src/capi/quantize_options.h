#pragma once

#include <nibble/nibble.h>

#include "compress/pipeline/pipeline.h"

namespace nibble::capi {

nibble_quantize_options default_quantize_options();

/// What the options say of the work on a model; reads the calibration texts. Throws kUsage for what
/// is out of range, kIo and kInvalidModel for the files.
compress::PipelineOptions pipeline_of(const nibble_quantize_options& options);

/// The recipe of that name, with what the options change of it. Throws as compress::find_recipe().
compress::Recipe recipe_of(const char* name, const nibble_quantize_options& options);

}  // namespace nibble::capi
