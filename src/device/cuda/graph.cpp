#include "device/cuda/graph.h"

#include <utility>

#include "device/cuda/check.h"

namespace nibble::device::cuda {

Graph::~Graph() {
  if (graph_ != nullptr) {
    cudaGraphExecDestroy(graph_);
  }
}

Graph::Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(graph_, other.graph_);
  return *this;
}

Graph Graph::record(cudaStream_t stream, const std::function<void()>& work) {
  cudaGraph_t recorded = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &recorded);
    if (recorded != nullptr) {
      cudaGraphDestroy(recorded);
    }
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &recorded), "cudaStreamEndCapture");
  Graph graph;
  const cudaError_t status = cudaGraphInstantiate(&graph.graph_, recorded, 0);
  cudaGraphDestroy(recorded);
  check(status, "cudaGraphInstantiate");
  return graph;
}

void Graph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch");
}

}  // namespace nibble::device::cuda
