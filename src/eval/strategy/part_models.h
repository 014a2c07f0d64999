#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/progress.h"
#include "models/layer_part.h"
#include "models/model.h"

namespace nibble::eval {

/// A float model, and models of it whose parts are quantized each on its own. What a type makes of
/// the layers is computed once and shared by all that have it.
class PartModels {
 public:
  /// Throws kUsage for a model that is compressed already.
  PartModels(std::shared_ptr<const models::Model> original, int threads);

  const std::shared_ptr<const models::Model>& original() const { return original_; }

  /// Rounded to nearest by the schemes. Throws as compress::quantize_in_memory.
  std::shared_ptr<const models::Model> with(const models::PartSchemes& schemes,
                                            core::ProgressSink& progress);

 private:
  const models::Model& whole(const formats::Scheme& scheme, core::ProgressSink& progress);

  std::shared_ptr<const models::Model> original_;
  int threads_;
  std::map<std::string, std::shared_ptr<const models::Model>> whole_;  // all parts, by scheme
};

/// The part of every layer of the blocks, by name; routers are left out.
std::map<std::string, models::LayerPart> parts_by_layer(const models::Network& network);

}  // namespace nibble::eval
