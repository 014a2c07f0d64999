#pragma once

#include <span>
#include <vector>

#include "compress/backend/backend.h"
#include "compress/block/block_work.h"

/// AWQ's searches on a GPU, for sets that awq_runs_on_gpu() accepts.
namespace nibble::compress::cuda {

/// scale_errors().
std::vector<double> scale_errors(CudaContext& context, const SetWork& set,
                                 std::span<const std::vector<float>> scales);

/// clip_set().
void clip_set(CudaContext& context, SetWork& set);

}  // namespace nibble::compress::cuda
