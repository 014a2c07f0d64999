#include "ops/cuda/step_upload.h"

#include "core/error.h"

namespace nibble::ops::cuda {

void StepUpload::begin() {
  read_.synchronize();
  runs_.clear();
}

void StepUpload::add(const void* host, void* device, std::int64_t bytes) {
  const auto aligned = [](const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0;
  };
  core::require(aligned(host) && aligned(device), core::ErrorKind::kFailed,
                "numbers of a step do not lie at multiples of {} bytes", kAlignment);
  if (bytes > 0) {
    runs_.push_back({host, device, bytes});
  }
}

}  // namespace nibble::ops::cuda
