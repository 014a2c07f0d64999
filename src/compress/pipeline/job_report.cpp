#include "compress/pipeline/job_report.h"

namespace nibble::compress {

void JobReport::add(LayerReport layer) {
  ++fresh_;
  show(fmt::format("{} error {:.5f}", layer.name, layer.relative_error));
  if (!layer.note.empty()) {
    progress_.message(fmt::format("{}: {}", layer.name, layer.note));
  }
  layers_.push_back(std::move(layer));
}

void JobReport::leave(std::int64_t layers, bool resumed) {
  done_ += layers;
  fresh_ = 0;
  progress_.update(done_, fmt::format("{} {}", part_, resumed ? "resumed" : "finished"));
}

}  // namespace nibble::compress
