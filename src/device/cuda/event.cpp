#include "device/cuda/event.h"

#include <utility>

#include "device/cuda/check.h"

namespace nibble::device::cuda {

Event::Event() {
  check(cudaEventCreate(&event_), "cudaEventCreate");
}

Event::~Event() {
  if (event_ != nullptr) {
    cudaEventDestroy(event_);
  }
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}

void Event::synchronize() const {
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

void Event::hold(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent");
}

double Event::seconds_since(const Event& start) const {
  float milliseconds = 0.0f;
  check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

}  // namespace nibble::device::cuda
