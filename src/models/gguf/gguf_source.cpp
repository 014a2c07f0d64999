#include "models/gguf/gguf_source.h"

#include <cstring>

#include "models/config_reader.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Tensor;

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

// Rows 2 j + i of a head go to i * half + j.
Tensor uninterleave(const Tensor& tensor, std::int64_t heads) {
  const std::int64_t rows = tensor.dim(0);
  core::require(rows % (2 * heads) == 0, ErrorKind::kInvalidModel,
                "GGUF: a query or key tensor has {} rows, not a multiple of 2 for {} heads", rows,
                heads);
  const std::int64_t row_bytes = tensor.bytes() / rows;
  const std::int64_t dim = rows / heads;
  Tensor result = Tensor::zeros(tensor.dtype(), tensor.shape());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t inside = row % dim;
    const std::int64_t target = row - inside + (inside % 2) * (dim / 2) + inside / 2;
    std::memcpy(result.mutable_raw() + target * row_bytes, tensor.raw() + row * row_bytes,
                static_cast<std::size_t>(row_bytes));
  }
  return result;
}

}  // namespace

GgufSource::GgufSource(std::shared_ptr<const io::GgufFile> file) : file_(std::move(file)) {
  const std::string& architecture = file_->metadata().get_string("general.architecture");
  for (const io::GgufTensor& tensor : file_->tensors()) {
    add(tensor.name, architecture);
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
  return entry.heads > 0 ? uninterleave(tensor, entry.heads) : tensor;
}

}  // namespace nibble::models
