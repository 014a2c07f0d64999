#pragma once

#include <functional>

#include <cuda_runtime_api.h>

namespace nibble::device::cuda {

/// Work that was recorded once and is launched as a whole. Move-only.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  /// Records what `work` puts on `stream`; none of it runs yet. Memory that the work uses must stay
  /// where it is. What `work` throws passes through, and nothing is left recording.
  static Graph record(cudaStream_t stream, const std::function<void()>& work);

  bool empty() const { return graph_ == nullptr; }
  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace nibble::device::cuda
