#pragma once

#include <string_view>

#include <cublas_api.h>

#include "core/error.h"

namespace nibble::device::cuda {

/// Throws kOutOfMemory or kFailed, naming the library and the call, for a status that is no
/// success.
inline void check_cublas(cublasStatus_t status, std::string_view library, const char* call) {
  core::require(status == CUBLAS_STATUS_SUCCESS,
                status == CUBLAS_STATUS_ALLOC_FAILED ? core::ErrorKind::kOutOfMemory
                                                     : core::ErrorKind::kFailed,
                "{}: {} gives status {}", library, call, static_cast<int>(status));
}

}  // namespace nibble::device::cuda
