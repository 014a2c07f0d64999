#include "models/gguf/gguf_export.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "models/exchange/model_layers.h"
#include "models/gguf/gguf_metadata.h"
#include "models/gguf/gguf_tensor_data.h"
#include "models/gguf/gguf_vocabulary_writer.h"

namespace nibble::models {
namespace {

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// general.file_type, by the type that most weights have.
std::uint32_t file_type_of(const std::map<std::string_view, std::int64_t>& weights) {
  constexpr std::pair<std::string_view, std::uint32_t> kFileTypes[] = {
      {"F32", 0},     {"F16", 1},     {"Q4_0", 2},  {"Q4_1", 3},  {"Q8_0", 7},  {"Q5_0", 8},
      {"Q5_1", 9},    {"Q2_K", 10},   {"Q3_K", 12}, {"Q4_K", 15}, {"Q5_K", 17}, {"Q6_K", 18},
      {"IQ4_NL", 25}, {"IQ4_XS", 30}, {"BF16", 32}, {"MXFP4", 38}};
  std::uint32_t result = 0;
  std::int64_t most = 0;
  for (const auto& [name, id] : kFileTypes) {
    const auto at = weights.find(name);
    if (at != weights.end() && at->second > most) {
      most = at->second;
      result = id;
    }
  }
  return result;
}

// Whether an output layer in blocks holds the very numbers of the token table: a GGUF file has them
// once then.
bool repeats_tokens(const Network& network, const ops::Linear& output) {
  const core::Tensor& tokens = network.embeddings.tokens.plain();
  const formats::PackedWeight& weight = output.weight;
  if (blocks_of_layer(weight) == nullptr || tokens.dtype() != core::DType::kF32 ||
      tokens.shape() != core::Shape{weight.n, weight.k}) {
    return false;
  }
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t i = 0; i < weight.n; ++i) {
    formats::decode_row(weight, i, row);
    const auto token =
        tokens.data<float>().subspan(static_cast<std::size_t>(i * weight.k), row.size());
    if (!std::equal(row.begin(), row.end(), token.begin())) {
      return false;
    }
  }
  return true;
}

// The tensors of a model under llama.cpp's names.
class GgufExport {
 public:
  GgufExport(const Model& model, const ConversionOptions& options, core::ProgressSink& progress)
      : model_(model),
        options_(options),
        progress_(progress),
        pool_(options.threads),
        architecture_(gguf_architecture(model)) {
    for (const ops::Linear* layer : layers_to_convert(model.network)) {
      converted_.insert(layer);
    }
  }

  Conversion write(const std::filesystem::path& target) {
    io::GgufKeys keys;
    add_metadata(model_, architecture_, keys);
    add_vocabulary(vocabulary_of(model_), keys);
    add_all();
    keys.emplace("general.file_type", io::GgufValue(file_type_of(weights_)));
    progress_.begin("convert", std::ssize(tensors_));
    io::write_gguf(target, keys, tensors_);
    model_.source->check_unchanged();
    progress_.end();
    if (float_inputs_ > 0) {
      conversion_.remarks.push_back(fmt::format(
          "inputs of {} layers are not rounded as the model says; llama.cpp rounds all to Q8",
          float_inputs_));
    }
    return std::move(conversion_);
  }

 private:
  void add_all() {
    const Network& network = model_.network;
    const ops::Linear& output = network.output.parts.front();
    const bool one_table = !options_.scheme && repeats_tokens(network, output);
    if (one_table) {
      add_layer("token_embd", output);
    } else {
      add_table("token_embd.weight", network.embeddings.tokens.plain());
    }
    if (!network.embeddings.positions.empty()) {
      add_vector("position_embd.weight", core::to_float32(network.embeddings.positions),
                 network.embeddings.positions.shape());
    }
    for (std::size_t i = 0; i < network.decoder.blocks.size(); ++i) {
      add_block(fmt::format("blk.{}.", i), network.decoder.blocks[i]);
    }
    add_norm("output_norm", *network.decoder.final_norm);
    if (!one_table && !shares_embedding(network, output)) {
      add_layer("output", output);
    }
    if (const std::vector<float> factors = rope_factors(model_); !factors.empty()) {
      add_vector("rope_freqs.weight", factors, {std::ssize(factors)});
    }
  }

  void add_block(const std::string& prefix, const Block& block) {
    add_norm(prefix + "attn_norm", block.attention_norm);
    add_norm(prefix + "ffn_norm", block.mlp_norm);
    add_attention(prefix, block.attention);
    add_layer(prefix + "attn_output", block.attention.out.parts.front());
    if (block.mlp) {
      add_mlp(prefix, *block.mlp);
      return;
    }
    add_layer(prefix + "ffn_gate_inp", block.router->parts.front());
    add_experts(prefix + "ffn_gate_exps", block.experts,
                [](const Mlp& m) { return &m.up.parts[0]; });
    add_experts(prefix + "ffn_up_exps", block.experts, [](const Mlp& m) { return &m.up.parts[1]; });
    add_experts(prefix + "ffn_down_exps", block.experts,
                [](const Mlp& m) { return &m.down.parts[0]; });
  }

  void add_attention(const std::string& prefix, const Attention& attention) {
    const std::vector<ops::Linear>& qkv = attention.qkv.parts;
    if (qkv.size() == 1) {
      add_layer(prefix + "attn_qkv", qkv.front());
    } else {
      const bool interleaved = architecture_ == "llama";
      const ops::AttentionSpec& spec = attention.spec;
      add_layer(prefix + "attn_q", qkv[0],
                interleaved ? interleaved_rows(qkv[0].weight.n, spec.heads) : RowOrder());
      add_layer(prefix + "attn_k", qkv[1],
                interleaved ? interleaved_rows(qkv[1].weight.n, spec.kv_heads) : RowOrder());
      add_layer(prefix + "attn_v", qkv[2]);
    }
    if (!attention.spec.q_norm.empty()) {
      add_vector(prefix + "attn_q_norm.weight", attention.spec.q_norm,
                 {std::ssize(attention.spec.q_norm)});
      add_vector(prefix + "attn_k_norm.weight", attention.spec.k_norm,
                 {std::ssize(attention.spec.k_norm)});
    }
  }

  void add_mlp(const std::string& prefix, const Mlp& mlp) {
    const bool gated = mlp.up.parts.size() == 2;
    if (gated) {
      add_layer(prefix + "ffn_gate", mlp.up.parts.front());
    }
    add_layer(prefix + "ffn_up", mlp.up.parts.back());
    add_layer(prefix + "ffn_down", mlp.down.parts.front());
  }

  // The scheme that the layer shall have, where one was given for layers like it.
  std::optional<formats::Scheme> asked(const ops::Linear& layer) const {
    const bool given = converted_.contains(&layer) || !formats::is_dense(layer.weight.scheme) ||
                       (options_.scheme && formats::is_dense(*options_.scheme));
    return given ? options_.scheme : std::nullopt;
  }

  // One matrix and its bias.
  void add_layer(const std::string& name, const ops::Linear& layer, const RowOrder& rows = {}) {
    add_matrix(name + ".weight", {layer.weight.n, layer.weight.k}, {&layer}, rows);
    if (layer.bias.empty()) {
      return;
    }
    std::vector<float> bias(layer.bias.size());
    for (std::size_t i = 0; i < bias.size(); ++i) {
      bias[i] = layer.bias[rows.empty() ? i : static_cast<std::size_t>(rows[i])];
    }
    add_vector(name + ".bias", bias, {std::ssize(bias)});
  }

  // The matrices of all experts behind one another.
  template <typename Select>
  void add_experts(const std::string& name, const std::vector<Mlp>& experts, Select select) {
    std::vector<const ops::Linear*> layers;
    for (const Mlp& expert : experts) {
      layers.push_back(select(expert));
    }
    const formats::PackedWeight& first = layers.front()->weight;
    add_matrix(name + ".weight", {std::ssize(layers), first.n, first.k}, layers, {});
  }

  void add_matrix(const std::string& name, const core::Shape& shape,
                  const std::vector<const ops::Linear*>& layers, const RowOrder& rows) {
    const ops::Linear& first = *layers.front();
    const gguf_blocks::BlockType& type = gguf_type_of(first.weight, asked(first));
    weights_[type.name] += core::element_count(shape);
    const auto data = [this, layers, rows, &type] {
      std::vector<std::byte> bytes;
      for (const ops::Linear* layer : layers) {
        append(*layer, type, rows, bytes);
      }
      done();
      return bytes;
    };
    tensors_.push_back({name, shape, &type, data});
  }

  void append(const ops::Linear& layer, const gguf_blocks::BlockType& type, const RowOrder& rows,
              std::vector<std::byte>& bytes) {
    GgufLayer data = gguf_layer(layer, type, rows, asked(layer), options_.round, pool_);
    data.report.stored_bytes = std::ssize(data.bytes);
    bytes.insert(bytes.end(), data.bytes.begin(), data.bytes.end());
    if (!formats::is_dense(layer.weight.scheme) || !data.report.exact) {
      conversion_.layers.push_back(std::move(data.report));
    }
    float_inputs_ += layer.weight.scheme.activation.is_float() ? 0 : 1;
    release_pages(model_, layer);
  }

  // A table of rows, in its type or in that which was asked for.
  void add_table(const std::string& name, const core::Tensor& table) {
    tables_.push_back(std::make_unique<ops::Linear>());
    ops::Linear& layer = *tables_.back();
    layer.name = model_.network.embeddings.tokens_name;
    layer.weight = formats::dense_weight(table);
    add_matrix(name, table.shape(), {&layer}, {});
  }

  void add_norm(const std::string& name, const ops::Norm& norm) {
    add_vector(name + ".weight", norm.weight, {std::ssize(norm.weight)});
    if (!norm.bias.empty()) {
      add_vector(name + ".bias", norm.bias, {std::ssize(norm.bias)});
    }
  }

  void add_vector(const std::string& name, const std::vector<float>& values,
                  const core::Shape& shape) {
    const auto bytes = [this, values] {
      done();
      return bytes_of(values);
    };
    tensors_.push_back({name, shape, gguf_blocks::find_block_type(0), bytes});
  }

  void done() { progress_.update(++written_, ""); }

  const Model& model_;
  const ConversionOptions& options_;
  core::ProgressSink& progress_;
  core::ThreadPool pool_;
  std::string architecture_;
  std::set<const ops::Linear*> converted_;
  std::vector<io::GgufOutput> tensors_;
  std::vector<std::unique_ptr<ops::Linear>> tables_;
  std::map<std::string_view, std::int64_t> weights_;  // by type
  std::int64_t written_ = 0;
  std::int64_t float_inputs_ = 0;
  Conversion conversion_;
};

}  // namespace

Conversion convert_gguf(const Model& model, const std::filesystem::path& target,
                        const ConversionOptions& options, core::ProgressSink& progress) {
  return GgufExport(model, options, progress).write(target);
}

}  // namespace nibble::models
