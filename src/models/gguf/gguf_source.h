#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/json.h"
#include "io/gguf.h"
#include "models/weight_source.h"
#include "text/tokenizer.h"

namespace nibble::models {

/// config.json as Hugging Face would write it for the model of a GGUF file. Architectures llama
/// (also with experts), qwen2, qwen3 and gpt2; others are refused by name.
core::Json gguf_config(const io::GgufFile& file);

/// The tokenizer.ggml.* keys.
text::Vocabulary gguf_vocabulary(const io::GgufMetadata& metadata);

/// Tensors of a GGUF file under the names of Hugging Face. Query and key rows of the llama
/// architecture, which GGUF interleaves for its rotary kernels, are put back in order; experts that
/// are stored as one tensor come out one by one.
class GgufSource final : public WeightSource {
 public:
  explicit GgufSource(std::shared_ptr<const io::GgufFile> file);
  std::vector<std::string> names() const override;
  bool contains(std::string_view name) const override { return tensors_.contains(name); }
  core::Tensor load(std::string_view name) const override;
  void check_intact() const override { file_->check_intact(); }
  void check_unchanged() const override { file_->check_unchanged(); }
  std::vector<std::filesystem::path> files() const override { return {file_->path()}; }
  bool stores_conv1d() const override { return false; }

 private:
  struct Entry {
    std::string stored;      // name in the file
    std::int64_t heads = 0;  // > 0: rows are interleaved by head
    std::int64_t expert = -1;
  };

  void add(const std::string& stored, const std::string& architecture);
  void add_block_tensor(const std::string& stored, const std::string& architecture,
                        const std::string& layer, const std::string& part);

  std::shared_ptr<const io::GgufFile> file_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace nibble::models
