#pragma once

#include <cstdint>
#include <span>

#include "device/cuda/check.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "engine/recent_steps.h"
#include "ops/cuda/cuda_ops.h"

namespace nibble::engine {

/// Rows that a step leaves on the device, until the next one.
struct DeviceRows {
  const float* values = nullptr;
  std::int64_t columns = 0;
};

/// Steps of a GPU that are recorded when they come for the second time, and launched as one graph
/// from then on. Of those that are recorded the most recent ones are kept. `Kind` is what makes
/// steps alike: all that the work puts on the stream depends on.
template <typename Kind>
class CudaSteps {
 public:
  CudaSteps(ops::cuda::CudaOps& ops, std::size_t most) : ops_(ops), recorded_(most) {}

  /// Does `work`, which gives a matrix of float32, or one without rows where nothing is left. The
  /// numbers of the step are those of CudaOps::begin_step().
  template <typename Work>
  DeviceRows run(const Kind& kind, const Work& work) {
    unrecorded_ = ops::cuda::DeviceMatrix();  // a step that is recorded finds its memory there
    Step* const known = recorded_.find(kind);
    if (known == nullptr) {
      unrecorded_ = work();
      if (!ops_.waited()) {
        recorded_.add(kind);
      }
      return rows_of(unrecorded_);
    }
    if (known->graph.empty()) {
      known->graph = device::cuda::Graph::record(ops_.stream(), [&] {
        known->rows = rows_of(work());  // read before other steps can take its memory
      });
    }
    known->graph.launch(ops_.stream());
    return known->rows;
  }

  /// Forgets what was recorded: memory that steps use moves.
  void clear() { recorded_.clear(); }

  /// The first `count` of a step's rows in memory of the host, until the next call.
  std::span<const float> download(const DeviceRows& rows, std::int64_t count) {
    const std::int64_t values = count * rows.columns;
    auto* const host = results_.room_for<float>(values);
    device::cuda::check(
        cudaMemcpyAsync(host, rows.values, static_cast<std::size_t>(values) * sizeof(float),
                        cudaMemcpyDeviceToHost, ops_.stream()),
        "cudaMemcpyAsync");
    ops_.synchronize();
    return {host, static_cast<std::size_t>(values)};
  }

 private:
  /// A step that was computed once (no graph) or recorded.
  struct Step {
    device::cuda::Graph graph;
    DeviceRows rows;
  };

  static DeviceRows rows_of(const ops::cuda::DeviceMatrix& made) {
    return made.rows() == 0 ? DeviceRows() : DeviceRows{made.data(), made.columns()};
  }

  ops::cuda::CudaOps& ops_;
  RecentSteps<Kind, Step> recorded_;
  ops::cuda::DeviceMatrix unrecorded_;  // of a step that is not recorded
  device::cuda::PinnedBuffer results_;
};

}  // namespace nibble::engine
