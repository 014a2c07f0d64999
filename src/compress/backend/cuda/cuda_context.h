#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/blas.h"
#include "device/cuda/check.h"
#include "device/cuda/memory.h"
#include "device/cuda/solver.h"
#include "device/cuda/stream.h"
#include "device/cuda_devices.h"

namespace nibble::compress::cuda {

/// What the parts of the back end share: one GPU, one stream on which all of them work in order.
class CudaContext {
 public:
  /// Throws kUsage where there is no such GPU, or no cuBLAS or cuSOLVER.
  explicit CudaContext(int gpu)
      : device_(device::require_cuda_device(gpu)), blas_(stream_.get()), solver_(stream_.get()) {}

  const device::CudaDevice& device() const { return device_; }
  cudaStream_t stream() const { return stream_.get(); }
  const device::cuda::Blas& blas() const { return blas_; }
  device::cuda::Solver& solver() { return solver_; }

  /// Waits for all work so far.
  void wait() const { stream_.synchronize(); }
  static std::int64_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    device::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return static_cast<std::int64_t>(free);
  }

  /// Copies in the order of the stream. What is copied may change as soon as upload() returns;
  /// download() waits for its values.
  template <typename T>
  void upload(std::span<const T> values, T* target) const {
    device::cuda::check(cudaMemcpyAsync(target, values.data(), values.size_bytes(),
                                        cudaMemcpyHostToDevice, stream()),
                        "cudaMemcpyAsync to the device");
    stream_.synchronize();
  }
  template <typename T>
  void download(const T* source, std::span<T> values) const {
    device::cuda::check(cudaMemcpyAsync(values.data(), source, values.size_bytes(),
                                        cudaMemcpyDeviceToHost, stream()),
                        "cudaMemcpyAsync from the device");
    stream_.synchronize();
  }

  void zero(const device::cuda::Buffer& buffer) const {
    device::cuda::check(
        cudaMemsetAsync(buffer.data(), 0, static_cast<std::size_t>(buffer.bytes()), stream()),
        "cudaMemsetAsync");
  }

  /// Room for `count` elements; copies of values.
  template <typename T>
  static device::cuda::Buffer room(std::int64_t count) {
    return device::cuda::Buffer(count * static_cast<std::int64_t>(sizeof(T)));
  }
  template <typename T>
  device::cuda::Buffer copy_of(std::span<const T> values) const {
    device::cuda::Buffer buffer = room<T>(static_cast<std::int64_t>(values.size()));
    upload(values, buffer.as<T>());
    return buffer;
  }
  template <typename T>
  std::vector<T> values_of(const device::cuda::Buffer& buffer) const {
    std::vector<T> values(static_cast<std::size_t>(buffer.bytes()) / sizeof(T));
    download(buffer.as<T>(), std::span(values));
    return values;
  }

 private:
  device::CudaDevice device_;
  device::cuda::Stream stream_;
  device::cuda::Blas blas_;
  device::cuda::Solver solver_;
};

}  // namespace nibble::compress::cuda
