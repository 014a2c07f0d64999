#include "engine/cpu_layers.h"

namespace nibble::engine {

CpuLayers::CpuLayers(const models::Model& model, const RunnerOptions& options,
                     ops::cpu::CpuOps& ops)
    : model_(model) {
  ops::cpu::CpuOps::Layout layout;
  if (!options.tile_file.empty()) {
    tile_file_ = TileFile::open(options.tile_file, model, ops.pool());
    layout = [this](const ops::Linear& layer) { return tile_file_->layout(layer); };
  }
  for (const ops::LinearSet* set : models::linear_sets(model.network)) {
    std::vector<std::unique_ptr<models::LayerHold>> holds;
    for (const ops::Linear& part : set->parts) {
      holds.push_back(std::make_unique<models::LayerHold>(model, part));
    }
    ops.prepare(*set, layout);
    for (std::size_t part = 0; part < holds.size(); ++part) {
      if (ops.reads_stored(*set, part)) {
        read_where_stored_.push_back(std::move(holds[part]));
      }
    }
  }
}

void CpuLayers::check_intact() const {
  if (tile_file_) {
    tile_file_->check_intact();
  }
  if (model_.source) {
    model_.source->check_intact();
  }
}

}  // namespace nibble::engine
