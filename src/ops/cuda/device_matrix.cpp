#include "ops/cuda/device_matrix.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <cuda_runtime_api.h>

#include "core/error.h"
#include "device/cuda/check.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kSmallest = 512;

// Up to a quarter more than asked, so that steps of about the same size share buffers.
std::int64_t size_class(std::int64_t bytes) {
  const auto wanted = static_cast<std::uint64_t>(std::max(bytes, kSmallest));
  const std::uint64_t step = std::bit_floor(wanted) / 4;
  return static_cast<std::int64_t>((wanted + step - 1) / step * step);
}

/// Allows this thread to allocate memory also while it records a step: that puts nothing into the
/// graph.
class AllocationWhileRecording {
 public:
  AllocationWhileRecording() {
    device::cuda::check(cudaThreadExchangeStreamCaptureMode(&mode_),
                        "cudaThreadExchangeStreamCaptureMode");
  }
  ~AllocationWhileRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  AllocationWhileRecording(const AllocationWhileRecording&) = delete;
  AllocationWhileRecording& operator=(const AllocationWhileRecording&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

device::cuda::Buffer DevicePool::take(std::int64_t bytes) {
  const std::int64_t size = size_class(bytes);
  const auto at = free_.find(size);
  if (at != free_.end() && !at->second.empty()) {
    device::cuda::Buffer buffer = std::move(at->second.back());
    at->second.pop_back();
    return buffer;
  }
  const AllocationWhileRecording allowed;
  device::cuda::Buffer buffer(size);
  owned_ += size;
  return buffer;
}

void DevicePool::give_back(device::cuda::Buffer buffer) {
  const std::int64_t size = buffer.bytes();
  free_[size].push_back(std::move(buffer));
}

float* DeviceMatrix::data() const {
  core::require(!is_half(), core::ErrorKind::kFailed,
                "a matrix of float16 was to be read as float32: this operator of the GPU does not "
                "take it");
  return buffer_.as<float>();
}

core::Fp16* DeviceMatrix::halves() const {
  core::require(is_half(), core::ErrorKind::kFailed,
                "a matrix of float32 was to be read as float16: this operator of the GPU does not "
                "take it");
  return buffer_.as<core::Fp16>();
}

}  // namespace nibble::ops::cuda
