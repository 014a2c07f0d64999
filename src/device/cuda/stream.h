#pragma once

#include <cuda_runtime_api.h>

namespace nibble::device::cuda {

/// A queue of work on the current device, which runs in order. Move-only.
class Stream {
 public:
  Stream();  // does not wait for the default stream
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  cudaStream_t get() const { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace nibble::device::cuda
