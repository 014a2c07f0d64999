#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/json_type.h"
#include "io/gguf.h"
#include "models/model.h"
#include "models/weight_source.h"
#include "text/tokenizer.h"

namespace nibble::models {

/// config.json as Hugging Face would write it for the model of a GGUF file. Architectures llama
/// (also with experts), qwen2, qwen3 and gpt2; others are refused by name. The output layer is tied
/// where it is not in the file, unless `stored` has it run in the blocks of the token table.
core::Json gguf_config(const io::GgufFile& file, StoredLayers stored);

/// Whether the model has an output layer of its own; else that is the token table.
bool has_output_layer(const io::GgufFile& file, StoredLayers stored);

/// The tokenizer.ggml.* keys.
text::Vocabulary gguf_vocabulary(const io::GgufMetadata& metadata);

/// Tensors of a GGUF file under the names of Hugging Face. Query and key rows of the llama
/// architecture, which GGUF interleaves for its rotary kernels, are put back in order; experts that
/// are stored as one tensor come out one by one. Layers in blocks are foreign layers; as tensors
/// they are decoded to float32.
class GgufSource final : public WeightSource {
 public:
  GgufSource(std::shared_ptr<const io::GgufFile> file, StoredLayers stored);
  std::vector<std::string> names() const override;
  bool contains(std::string_view name) const override { return tensors_.contains(name); }
  core::Tensor load(std::string_view name) const override;
  void check_intact() const override { file_->check_intact(); }
  void check_unchanged() const override { file_->check_unchanged(); }
  std::vector<std::filesystem::path> files() const override { return {file_->path()}; }
  bool stores_conv1d() const override { return false; }
  /// Throws kInvalidModel where the tensor has another shape, and as layer_of_blocks().
  std::optional<ForeignLayer> foreign_layer(const std::string& prefix, std::int64_t n,
                                            std::int64_t k) const override;

  /// Of tables in blocks that layers are run in.
  std::shared_ptr<const ops::StoredRows> stored_rows(std::string_view name) const override;

  /// The block types of layers, those of most weights first: "gguf Q4_K, Q6_K". Empty for none.
  std::string recipe(const std::map<std::string, formats::Scheme>& layers) const;
  /// What is not as the file has it, a sentence each.
  std::vector<std::string> remarks() const;

 private:
  struct Entry {
    std::string stored;      // name in the file
    std::int64_t heads = 0;  // > 0: rows are interleaved by head
    std::int64_t expert = -1;
  };

  const gguf_blocks::BlockType& type_of(const Entry& entry) const;
  void add(const std::string& stored, const std::string& architecture);
  void add_block_tensor(const std::string& stored, const std::string& architecture,
                        const std::string& layer, const std::string& part);

  std::shared_ptr<const io::GgufFile> file_;
  StoredLayers stored_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace nibble::models
