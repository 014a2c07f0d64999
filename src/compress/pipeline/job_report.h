#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compress/pipeline/pipeline.h"
#include "core/progress.h"

namespace nibble::compress {

/// What the user hears of the work on the layers of a model, part by part ("block 3 of 32"), and
/// what became of each layer.
class JobReport {
 public:
  explicit JobReport(core::ProgressSink& progress) : progress_(progress) {}

  void begin(std::int64_t layers) { progress_.begin("quantize", layers); }
  /// What is told from here on is of this part.
  void enter(std::string part) { part_ = std::move(part); }
  /// What is being done there.
  void show(std::string_view what) {
    progress_.update(done_ + fresh_, fmt::format("{}: {}", part_, what));
  }
  /// A layer is compressed.
  void add(LayerReport layer);
  /// The part has so many layers, which an earlier run has finished: they tell nothing of how long
  /// the others take.
  void skip(std::int64_t layers) { progress_.skip(done_ + layers); }
  /// The part is over; all its layers are done.
  void leave(std::int64_t layers, bool resumed);
  void end() { progress_.end(); }

  /// Of the layers, in the order in which they were added.
  std::vector<LayerReport> take() { return std::move(layers_); }

 private:
  core::ProgressSink& progress_;
  std::string part_;
  std::int64_t done_ = 0;   // layers of the parts that are over
  std::int64_t fresh_ = 0;  // layers of this part
  std::vector<LayerReport> layers_;
};

}  // namespace nibble::compress
