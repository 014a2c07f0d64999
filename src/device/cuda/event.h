#pragma once

#include <cuda_runtime_api.h>

namespace nibble::device::cuda {

/// A point in a stream's work. Move-only.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  void record(cudaStream_t stream);
  void synchronize() const;
  /// Lets what `stream` gets from here on wait for it.
  void hold(cudaStream_t stream) const;

  /// Seconds from `start` to this; both must have been reached.
  double seconds_since(const Event& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace nibble::device::cuda
