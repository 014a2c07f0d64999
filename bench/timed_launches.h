#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/event.h"
#include "device/cuda/graph.h"
#include "device/cuda/stream.h"
#include "measure.h"

/// Kernels whose times are compared in one process.
namespace nibble::bench {

inline constexpr int kLaunches = 60;  // of a graph
inline constexpr int kReadings = 9;

/// A recorded row of launches, each on the next copy of the weights.
class Timed {
 public:
  Timed(std::string name, double bytes, const std::function<void(int, cudaStream_t)>& launch)
      : name_(std::move(name)), bytes_(bytes) {
    launch(0, stream_.get());
    stream_.synchronize();  // before another one's: chains may not run at the same time
    graph_ = std::make_unique<device::cuda::Graph>(device::cuda::Graph::record(stream_.get(), [&] {
      for (int turn = 0; turn < kLaunches; ++turn) {
        launch(turn, stream_.get());
      }
    }));
  }
  void read() {
    begin_.record(stream_.get());
    graph_->launch(stream_.get());
    end_.record(stream_.get());
    end_.synchronize();
    seconds_.push_back(end_.seconds_since(begin_) / kLaunches);
  }
  double seconds() const { return median({seconds_.begin() + 2, seconds_.end()}); }
  const std::string& name() const { return name_; }
  double bytes() const { return bytes_; }

 private:
  std::string name_;
  double bytes_;
  device::cuda::Stream stream_;
  std::unique_ptr<device::cuda::Graph> graph_;
  device::cuda::Event begin_;
  device::cuda::Event end_;
  std::vector<double> seconds_;
};

/// So that a change of the clock meets all of them.
inline void read_in_turns(const std::vector<std::unique_ptr<Timed>>& all) {
  for (int reading = 0; reading < kReadings; ++reading) {
    for (const auto& each : all) {
      each->read();
    }
  }
}

}  // namespace nibble::bench
