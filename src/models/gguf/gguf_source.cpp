#include "models/gguf/gguf_source.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/ranges.h>

#include "formats/gguf_types.h"
#include "models/config_reader.h"
#include "models/gguf/gguf_layers.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Tensor;

constexpr const char* kTokenTable = "token_embd.weight";

struct Rename {
  std::string_view gguf;
  std::string_view hugging_face;
};

constexpr Rename kLlamaNames[] = {
    {"attn_norm", "input_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.w1"},
    {"ffn_down_exps", "block_sparse_moe.w2"},
    {"ffn_up_exps", "block_sparse_moe.w3"},
};

constexpr Rename kGpt2Names[] = {
    {"attn_norm", "ln_1"},          {"ffn_norm", "ln_2"},   {"attn_qkv", "attn.c_attn"},
    {"attn_output", "attn.c_proj"}, {"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"},
};

constexpr Rename kLlamaEnds[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Rename kGpt2Ends[] = {{"token_embd", "wte"},
                                {"position_embd", "wpe"},
                                {"output_norm", "ln_f"},
                                {"output", "lm_head"}};

template <std::size_t N>
std::string translate(const Rename (&names)[N], std::string_view part) {
  for (const Rename& rename : names) {
    if (rename.gguf == part) {
      return std::string(rename.hugging_face);
    }
  }
  return {};
}

// Row i goes to order[i].
Tensor reordered(const Tensor& tensor, const RowOrder& order) {
  const std::int64_t rows = tensor.dim(0);
  const std::int64_t row_bytes = tensor.bytes() / rows;
  Tensor result = Tensor::zeros(tensor.dtype(), tensor.shape());
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(result.mutable_raw() + order[static_cast<std::size_t>(row)] * row_bytes,
                tensor.raw() + row * row_bytes, static_cast<std::size_t>(row_bytes));
  }
  return result;
}

// Blocks that stay in the file.
class GgufRows final : public ops::StoredRows {
 public:
  GgufRows(std::shared_ptr<const io::GgufFile> file, const std::string& tensor)
      : file_(std::move(file)),
        entry_(file_->entry(tensor)),
        blocks_(file_->stored_bytes(tensor)),
        row_bytes_(entry_.bytes / rows()) {}

  std::int64_t rows() const override { return entry_.shape.front(); }
  std::int64_t columns() const override { return entry_.shape.back(); }
  std::int64_t bytes() const override { return entry_.bytes; }

  void read(std::int64_t row, std::span<float> out) const override {
    const std::byte* const blocks = blocks_.data() + row * row_bytes_;
    gguf_blocks::dequantize_blocks(*entry_.type, reinterpret_cast<const std::uint8_t*>(blocks),
                                   columns() / entry_.type->block_elements, out.data());
  }

 private:
  std::shared_ptr<const io::GgufFile> file_;
  const io::GgufTensor& entry_;
  std::span<const std::byte> blocks_;
  std::int64_t row_bytes_;
};

}  // namespace

bool has_output_layer(const io::GgufFile& file, StoredLayers stored) {
  return file.contains("output.weight") ||
         (stored != StoredLayers::kDecoded && file.contains(kTokenTable) &&
          formats::scheme_of_blocks(*file.entry(kTokenTable).type));
}

GgufSource::GgufSource(std::shared_ptr<const io::GgufFile> file, StoredLayers stored)
    : file_(std::move(file)), stored_(stored) {
  const std::string& architecture = file_->metadata().get_string("general.architecture");
  for (const io::GgufTensor& tensor : file_->tensors()) {
    add(tensor.name, architecture);
  }
  if (!file_->contains("output.weight") && has_output_layer(*file_, stored_)) {
    tensors_["lm_head.weight"] = {kTokenTable};
  }
}

void GgufSource::add(const std::string& stored, const std::string& architecture) {
  const std::size_t dot = stored.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : stored.substr(dot);
  const std::string stem = stored.substr(0, dot);
  if (stem.starts_with("blk.")) {
    const std::size_t second = stem.find('.', 4);
    core::require(second != std::string::npos, ErrorKind::kInvalidModel,
                  "GGUF: unexpected tensor '{}'", core::printable(stored));
    return add_block_tensor(stored, architecture, stem.substr(4, second - 4),
                            stem.substr(second + 1) + suffix);
  }
  if (stem == "rope_freqs") {
    tensors_["rope_freqs.weight"] = {stored};
    return;
  }
  const std::string name =
      architecture == "gpt2" ? translate(kGpt2Ends, stem) : translate(kLlamaEnds, stem);
  tensors_[name.empty() ? stored : name + suffix] = {stored};
}

void GgufSource::add_block_tensor(const std::string& stored, const std::string& architecture,
                                  const std::string& layer, const std::string& part) {
  const std::size_t dot = part.rfind('.');
  const std::string stem = part.substr(0, dot);
  const std::string suffix = dot == std::string::npos ? "" : part.substr(dot);
  if (architecture == "gpt2") {
    const std::string name = translate(kGpt2Names, stem);
    tensors_[name.empty() ? stored : "h." + layer + "." + name + suffix] = {stored};
    return;
  }
  const std::string name = translate(kLlamaNames, stem);
  const std::string prefix = "model.layers." + layer + ".";
  if (name.empty()) {
    tensors_[stored] = {stored};
    return;
  }
  const io::GgufMetadata& metadata = file_->metadata();
  if (stem.ends_with("_exps")) {
    const core::Shape& shape = file_->entry(stored).shape;
    core::require(shape.size() == 3, ErrorKind::kInvalidModel,
                  "GGUF: '{}' must have three dimensions", core::printable(stored));
    for (std::int64_t expert = 0; expert < shape[0]; ++expert) {
      const std::string matrix = name.substr(name.rfind('.') + 1);
      tensors_[fmt::format("{}block_sparse_moe.experts.{}.{}{}", prefix, expert, matrix, suffix)] =
          {stored, 0, expert};
    }
    return;
  }
  Entry entry{stored};
  if (architecture == "llama" && (stem == "attn_q" || stem == "attn_k")) {
    const std::int64_t heads = metadata.get_integer("llama.attention.head_count", 1, kMaxHeads);
    entry.heads =
        stem == "attn_q"
            ? heads
            : metadata.find_integer("llama.attention.head_count_kv", 1, kMaxHeads).value_or(heads);
  }
  tensors_[prefix + name + suffix] = entry;
}

std::vector<std::string> GgufSource::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) {
    names.push_back(name);
  }
  return names;
}

Tensor GgufSource::load(std::string_view name) const {
  const auto at = tensors_.find(name);
  core::require(at != tensors_.end(), ErrorKind::kInvalidModel, "GGUF: there is no tensor '{}'",
                core::printable(name));
  const Entry& entry = at->second;
  const Tensor tensor = file_->tensor(entry.stored);
  if (entry.expert >= 0) {
    const Tensor part = tensor.rows(entry.expert, entry.expert + 1);
    return part.reshaped({tensor.dim(1), tensor.dim(2)});
  }
  return entry.heads > 0 ? reordered(tensor, interleaved_rows(tensor.dim(0), entry.heads)) : tensor;
}

const gguf_blocks::BlockType& GgufSource::type_of(const Entry& entry) const {
  return *file_->entry(entry.stored).type;
}

std::optional<ForeignLayer> GgufSource::foreign_layer(const std::string& prefix, std::int64_t n,
                                                      std::int64_t k) const {
  const std::string name = prefix + ".weight";
  const auto at = tensors_.find(name);
  if (stored_ == StoredLayers::kDecoded || at == tensors_.end() ||
      !formats::scheme_of_blocks(type_of(at->second))) {
    return std::nullopt;
  }
  const Entry& entry = at->second;
  const io::GgufTensor& tensor = file_->entry(entry.stored);
  core::Shape shape = tensor.shape;
  if (entry.expert >= 0) {
    shape.erase(shape.begin());
  }
  core::require(shape == core::Shape{n, k}, ErrorKind::kInvalidModel,
                "tensor '{}' has shape {}, expected {}", core::printable(name),
                core::printable(shape), core::printable(core::Shape{n, k}));
  const std::int64_t bytes = n * k / tensor.type->block_elements * tensor.type->block_bytes;
  const auto blocks =
      file_->stored_bytes(entry.stored)
          .subspan(static_cast<std::size_t>(std::max<std::int64_t>(entry.expert, 0) * bytes),
                   static_cast<std::size_t>(bytes));
  ForeignLayer layer;
  layer.read =
      layer_of_blocks(*tensor.type, blocks, n, k,
                      entry.heads > 0 ? interleaved_rows(n, entry.heads) : RowOrder(), prefix);
  file_->check_intact();  // the layer was made of bytes that may be gone
  file_->release(entry.stored);
  layer.tensors.push_back(name);
  return layer;
}

std::shared_ptr<const ops::StoredRows> GgufSource::stored_rows(std::string_view name) const {
  const auto at = tensors_.find(name);
  if (stored_ == StoredLayers::kDecoded || at == tensors_.end() ||
      !formats::scheme_of_blocks(type_of(at->second)) || at->second.heads > 0 ||
      at->second.expert >= 0) {
    return nullptr;
  }
  const core::Shape& shape = file_->entry(at->second.stored).shape;
  return shape.size() == 2 && shape.front() > 0
             ? std::make_shared<const GgufRows>(file_, at->second.stored)
             : nullptr;
}

std::string GgufSource::recipe(const std::map<std::string, formats::Scheme>& layers) const {
  std::map<std::string_view, std::int64_t> bytes;
  for (const auto& [prefix, scheme] : layers) {
    const Entry& entry = tensors_.at(prefix + ".weight");
    bytes[type_of(entry).name] += file_->entry(entry.stored).bytes;
  }
  std::vector<std::string_view> types;
  for (const auto& [type, size] : bytes) {
    types.push_back(type);
  }
  std::stable_sort(types.begin(), types.end(),
                   [&](std::string_view a, std::string_view b) { return bytes[a] > bytes[b]; });
  return types.empty() ? "" : fmt::format("gguf {}", fmt::join(types, ", "));
}

std::vector<std::string> GgufSource::remarks() const {
  std::set<std::string_view> types;
  for (const auto& [name, entry] : tensors_) {
    const gguf_blocks::BlockType& type = type_of(entry);
    if (type.form != nullptr && stored_ == StoredLayers::kDecoded) {
      types.insert(type.name);
    }
  }
  if (types.empty()) {
    return {};
  }
  return {fmt::format("what the file has in {} was decoded to float32", fmt::join(types, ", "))};
}

}  // namespace nibble::models
