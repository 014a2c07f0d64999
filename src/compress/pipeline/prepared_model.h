#pragma once

#include <map>
#include <memory>
#include <string>

#include "compress/pipeline/block_store.h"
#include "compress/recipe/model_transform.h"
#include "core/threads.h"
#include "models/lora/lora_adapter.h"

namespace nibble::compress {

/// The model that a recipe rounds: the original with an adapter merged into its blocks, then
/// transformed, where there is either. It gives one block at a time.
class PreparedModel {
 public:
  /// `adapter` and `transform` may be null. `store` gets the ends where the transform changes them.
  /// Throws as LoraAdapter::pairs_for().
  PreparedModel(const models::Network& original, const models::LoraAdapter* adapter,
                std::unique_ptr<ModelTransform> transform, BlockStore& store,
                core::ThreadPool& pool);

  /// Gives the output layer a matrix of its own.
  void separate_output();

  const models::Network& original() const { return original_; }
  /// The original's blocks between the ends that the prepared ones stand between.
  const models::Network& network() const { return network_; }

  models::Block block(const models::Block& original) const;

  bool is_transformed() const { return transform_ != nullptr; }
  bool has_adapter() const { return !pairs_.empty(); }

 private:
  const models::Network& original_;
  models::Network network_;
  std::map<std::string, models::LoraPair> pairs_;  // of the adapter, by layer prefix
  float adapter_scale_ = 1.0f;
  std::unique_ptr<ModelTransform> transform_;
  core::ThreadPool& pool_;
};

}  // namespace nibble::compress
