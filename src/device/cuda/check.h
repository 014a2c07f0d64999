#pragma once

#include <source_location>
#include <string_view>

#include <cuda_runtime_api.h>

namespace nibble::device::cuda {

/// Throws unless `status` is success: kOutOfMemory for memory, else kFailed. The message names the
/// call, the place in the sources, and CUDA's own words.
void check(cudaError_t status, std::string_view call,
           std::source_location where = std::source_location::current());

/// The same for a kernel that was just launched.
void check_launch(std::string_view kernel,
                  std::source_location where = std::source_location::current());

}  // namespace nibble::device::cuda
