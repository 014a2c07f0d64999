#pragma once

#include "compress/backend/backend.h"
#include "compress/block/block_work.h"
#include "core/threads.h"

namespace nibble::compress {

/// Clips the weights of each group of each output row to the range that leaves the least error in
/// the group's part of the output when they are rounded to nearest: AWQ's clip search. The error is
/// e^T H e with the group's own block of the Hessian, the mean squared error on the calibration
/// text.
void clip_groups(LayerWork& layer, const std::vector<float>& hessian, core::ThreadPool& pool);

/// All layers of the set that are not dense: on the backend's GPU where that runs the searches for
/// the set, else on its threads.
void clip_set(SetWork& set, const Backend& backend);

}  // namespace nibble::compress
