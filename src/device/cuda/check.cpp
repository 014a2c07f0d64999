#include "device/cuda/check.h"

#include <filesystem>

#include "core/error.h"

namespace nibble::device::cuda {

void check(cudaError_t status, std::string_view call, const char* file, int line) {
  if (status == cudaSuccess) {
    return;
  }
  cudaGetLastError();  // an error that is not sticky is over
  core::fail(status == cudaErrorMemoryAllocation ? core::ErrorKind::kOutOfMemory
                                                 : core::ErrorKind::kFailed,
             "CUDA: {} at {}:{}: {}", call, std::filesystem::path(file).filename().string(), line,
             cudaGetErrorString(status));
}

void check_launch(std::string_view kernel, const char* file, int line) {
  check(cudaGetLastError(), kernel, file, line);
}

}  // namespace nibble::device::cuda
