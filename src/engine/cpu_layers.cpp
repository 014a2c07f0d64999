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
    ops.prepare(*set, layout);
    for (const ops::Linear& part : set->parts) {
      models::release_pages(model, part);
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
