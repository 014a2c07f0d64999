#pragma once

#include <memory>

#include "core/threads.h"
#include "device/place.h"

namespace nibble::compress {

namespace cuda {
class CudaContext;
}

/// What the heavy work of a recipe runs on: the CPU's threads, and a GPU where one was asked for.
/// It knows no method. A method that has a form for GPUs takes gpu() where its form serves the
/// case, and the threads where it does not. Its data come from the host's memory and return there;
/// results of two devices agree within the rounding of sums in another order.
class Backend {
 public:
  /// The threads alone.
  explicit Backend(core::ThreadPool& pool) : pool_(pool) {}
  /// With a GPU.
  Backend(core::ThreadPool& pool, std::shared_ptr<cuda::CudaContext> gpu)
      : pool_(pool), gpu_(std::move(gpu)) {}

  core::ThreadPool& pool() const { return pool_; }
  bool has_gpu() const { return gpu_ != nullptr; }
  /// Only where has_gpu().
  cuda::CudaContext& gpu() const { return *gpu_; }

 private:
  core::ThreadPool& pool_;
  std::shared_ptr<cuda::CudaContext> gpu_;
};

/// With the GPU of that number. Throws kUsage where this build has no CUDA back end, there is no
/// such GPU, or CUDA's cuBLAS and cuSOLVER are not installed.
Backend make_cuda_backend(int gpu, core::ThreadPool& pool);

Backend make_backend(const device::Place& place, core::ThreadPool& pool);

}  // namespace nibble::compress
