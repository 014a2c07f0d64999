#include "device/cuda/memory.h"

#include <utility>

#include "core/error.h"
#include "device/cuda/check.h"

namespace nibble::device::cuda {

Buffer::Buffer(std::int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) {
    return;
  }
  const cudaError_t status =
      cudaMalloc(reinterpret_cast<void**>(&data_), static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    core::fail(core::ErrorKind::kOutOfMemory,
               "the GPU has {:.2f} of {:.2f} GB free, and {:.2f} GB are needed",
               static_cast<double>(free) / 1e9, static_cast<double>(total) / 1e9,
               static_cast<double>(bytes) / 1e9);
  }
  check(status, "cudaMalloc");
}

Buffer::~Buffer() {
  if (data_ != nullptr) {
    cudaFree(data_);
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Buffer::upload(const void* source, std::int64_t bytes) {
  core::require(bytes <= bytes_, core::ErrorKind::kFailed, "{} bytes for a buffer of {}", bytes,
                bytes_);
  check(cudaMemcpy(data_, source, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice),
        "cudaMemcpy to the device");
  // From memory that is not pinned, the call may return before the last bytes have arrived.
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

void Buffer::download(void* target, std::int64_t bytes) const {
  core::require(bytes <= bytes_, core::ErrorKind::kFailed, "{} bytes of a buffer of {}", bytes,
                bytes_);
  check(cudaMemcpy(target, data_, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost),
        "cudaMemcpy from the device");
}

PinnedBuffer::PinnedBuffer(std::int64_t bytes) : bytes_(bytes) {
  if (bytes > 0) {
    check(cudaMallocHost(reinterpret_cast<void**>(&data_), static_cast<std::size_t>(bytes)),
          "cudaMallocHost");
  }
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) {
    cudaFreeHost(data_);
  }
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace nibble::device::cuda
