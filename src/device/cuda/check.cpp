#include "device/cuda/check.h"

#include <filesystem>

#include "core/error.h"

namespace nibble::device::cuda {

void check(cudaError_t status, std::string_view call, std::source_location where) {
  if (status == cudaSuccess) {
    return;
  }
  cudaGetLastError();  // an error that is not sticky is over
  core::fail(status == cudaErrorMemoryAllocation ? core::ErrorKind::kOutOfMemory
                                                 : core::ErrorKind::kFailed,
             "CUDA: {} at {}:{}: {}", call,
             std::filesystem::path(where.file_name()).filename().string(), where.line(),
             cudaGetErrorString(status));
}

void check_launch(std::string_view kernel, std::source_location where) {
  check(cudaGetLastError(), kernel, where);
}

}  // namespace nibble::device::cuda
