#pragma once

#include <memory>
#include <vector>

#include "engine/runner.h"
#include "engine/tile_file.h"
#include "models/model.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::engine {

/// All layers of a model made ready for operators of a CPU: their layouts are made, or mapped from
/// options.tile_file. What was read to make a layout is given back at once: the file and its
/// layouts are never in memory both.
class CpuLayers {
 public:
  /// Throws as CpuOps::prepare() and TileFile::open().
  CpuLayers(const models::Model& model, const RunnerOptions& options, ops::cpu::CpuOps& ops);

  /// Throws kIo when a file has been truncated: bytes that are gone read as zeros
  /// (io/mapped_file.h), and so would the results be wrong.
  void check_intact() const;

 private:
  const models::Model& model_;
  std::vector<std::unique_ptr<models::LayerHold>> read_where_stored_;
  std::shared_ptr<const TileFile> tile_file_;  // null: layouts are made
};

}  // namespace nibble::engine
