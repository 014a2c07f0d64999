#pragma once

#include "core/error.h"

namespace nibble::compress::cuda {

/// What stands in place of a method's GPU code in a build without CUDA, whose backends have no GPU.
[[noreturn]] inline void no_gpu() {
  core::fail(core::ErrorKind::kFailed, "this build cannot compress on a GPU");
}

}  // namespace nibble::compress::cuda
