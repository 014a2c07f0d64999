#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

namespace nibble::device::cuda {

/// Throws unless `status` is success: kOutOfMemory for memory, else kFailed. The message names the
/// call, the place in the sources (where this is called), and CUDA's own words.
void check(cudaError_t status, std::string_view call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());

/// The same for a kernel that was just launched.
void check_launch(std::string_view kernel, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE());

}  // namespace nibble::device::cuda
