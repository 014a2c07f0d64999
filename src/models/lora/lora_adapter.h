#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/tensor.h"
#include "core/threads.h"
#include "models/model.h"

namespace nibble::models {

/// What an adapter adds to one layer: W + scale B A.
struct LoraPair {
  core::Tensor a;  // [r, k]; F32, F16 or BF16, every value finite
  core::Tensor b;  // [n, r]
};

/// A low-rank adapter as PEFT writes it (LoRA, arXiv 2106.09685; rank-stabilised scaling, arXiv
/// 2312.03732): adapter_config.json and adapter_model.safetensors with tensors
/// "base_model.model.<layer>.lora_A.weight" [r, k] and "...lora_B.weight" [n, r]. fan_in_fan_out
/// says how the weight beside them is stored (GPT-2's Conv1D) and does not change them.
class LoraAdapter {
 public:
  /// Throws kIo (missing), kInvalidModel (malformed, or what is not built: DoRA, biases, modules
  /// saved whole, embeddings, ranks by layer, adapters that stand beside changed weights), naming
  /// the field or tensor.
  static LoraAdapter open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  float scale() const { return scale_; }  // lora_alpha / r, or lora_alpha / sqrt(r)

  /// By the name of the layer in `network`. Throws kInvalidModel when a tensor belongs to no layer
  /// of its blocks, when a shape does not fit, or when a layer that target_modules lists has none.
  std::map<std::string, LoraPair> pairs_for(const Network& network) const;

  /// Bytes of the tensors.
  std::int64_t bytes() const { return bytes_; }

 private:
  void read_tensors();

  std::filesystem::path path_;
  std::int64_t rank_ = 0;
  float scale_ = 1.0f;
  std::vector<std::string> targets_;       // empty: the tensors alone decide
  std::map<std::string, LoraPair> pairs_;  // by the name of the layer in the adapter
  std::int64_t bytes_ = 0;
};

/// `model` with the adapter beside its layers in 16 bits (F16, or BF16 where it is stored so), its
/// scale multiplied by `factor`. Throws as pairs_for(), and kUsage when the model was compressed by
/// a recipe that changed what its layers read.
std::shared_ptr<Model> with_adapter(const Model& model, const LoraAdapter& adapter, float factor);

/// The layers of `block` that have a pair, with W + scale B A in float32 as weights; the others as
/// they are. Throws kInvalidModel when a sum is not finite.
Block merge_adapter(const Block& block, const std::map<std::string, LoraPair>& pairs, float scale,
                    core::ThreadPool& pool);

}  // namespace nibble::models
