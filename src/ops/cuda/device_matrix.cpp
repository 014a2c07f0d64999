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

namespace {

void require_type(const DeviceMatrix& matrix, MatrixType wanted) {
  const auto words = [](MatrixType type) {
    return type == MatrixType::kFloat32   ? "float32"
           : type == MatrixType::kFloat16 ? "float16"
                                          : "blocks of a sum";
  };
  core::require(matrix.type() == wanted, core::ErrorKind::kFailed,
                "a matrix of {} was to be read as {}: this operator of the GPU does not take it",
                words(matrix.type()), words(wanted));
}

}  // namespace

float* DeviceMatrix::data() const {
  core::require(!rows_divided_, core::ErrorKind::kFailed,
                "a matrix whose rows are on two GPUs was to be read as a whole");
  return divided_data();
}

float* DeviceMatrix::divided_data() const {
  require_type(*this, MatrixType::kFloat32);
  return buffer_.as<float>();
}

core::Fp16* DeviceMatrix::halves() const {
  require_type(*this, MatrixType::kFloat16);
  return buffer_.as<core::Fp16>();
}

WireBlock* DeviceMatrix::blocks() const {
  require_type(*this, MatrixType::kBlocks);
  return buffer_.as<WireBlock>();
}

}  // namespace nibble::ops::cuda
