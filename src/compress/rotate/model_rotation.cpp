#include "compress/rotate/model_rotation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/format.h"

namespace nibble::compress {
namespace {

using core::DType;
using core::ErrorKind;
using core::Tensor;

constexpr std::int64_t kRows = 64;  // rows of one task

bool has_out_norms(const models::Stack& stack) {
  return std::any_of(stack.blocks.begin(), stack.blocks.end(), [](const models::Block& block) {
    return block.attention_out_norm || block.mlp_out_norm;
  });
}

Rotation stream_rotation(const models::Network& network, std::uint64_t seed) {
  const models::NetworkConfig& config = network.config;
  core::require(!network.has_encoder() || network.encoder.norms != models::NormPlacement::kPost,
                ErrorKind::kUsage,
                "pass 'rotate': the encoder's norms stand in its residual stream (post-norm): "
                "LayerNorm scales its channels one by one, so that a turned stream would not come "
                "through; leave the rotation out");
  core::require(!network.has_encoder(), ErrorKind::kUsage,
                "pass 'rotate': the streams of an encoder and of a decoder behind it are not "
                "turned; leave the rotation out");
  core::require(network.decoder.norms == models::NormPlacement::kPre && network.decoder.final_norm,
                ErrorKind::kUsage,
                "pass 'rotate': the model has norms in its residual stream (post-norm) or none "
                "behind its last block; such a stream cannot be turned");
  core::require(
      !has_out_norms(network.decoder), ErrorKind::kUsage,
      "pass 'rotate': family '{}' has norms of what its layers add to the residual stream: "
      "they scale its channels one by one, so that a turned stream would not come "
      "through; leave the rotation out",
      config.family);
  core::require(!network.project_out, ErrorKind::kUsage,
                "pass 'rotate': the model's embedding is narrower than its residual stream");
  core::require(formats::hadamard_exists(config.hidden), ErrorKind::kUsage,
                "pass 'rotate': there is no Hadamard matrix of the hidden size {}", config.hidden);
  return config.norm == ops::NormKind::kLayer ? Rotation::random_keeping_ones(config.hidden, seed)
                                              : Rotation::random_hadamard(config.hidden, seed);
}

Rotation head_rotation(const models::NetworkConfig& config) {
  core::require(formats::hadamard_exists(config.head_dim), ErrorKind::kUsage,
                "pass 'rotate': there is no Hadamard matrix of the head size {}", config.head_dim);
  return Rotation::hadamard(config.head_dim);
}

// table <- table diag(fold) R, a few rows at a time; each row stays by itself.
Tensor turn_table(const Tensor& table, DType dtype, std::span<const float> fold,
                  const Rotation& rotation, core::ThreadPool& pool) {
  const std::int64_t rows = table.dim(0);
  const std::int64_t columns = table.dim(1);
  Tensor turned = Tensor::zeros(dtype, {rows, columns});
  std::byte* target = turned.mutable_raw();
  formats::Scheme dense;
  dense.code.dense = dtype;
  for (std::int64_t begin = 0; begin < rows; begin += kRows * pool.size()) {
    const std::int64_t end = std::min(rows, begin + kRows * pool.size());
    std::vector<float> values = core::to_float32(table.rows(begin, end));
    turn_inputs(values, columns, fold, rotation, pool);
    const Tensor part =
        formats::round_to_nearest(values, end - begin, columns, dense).dense;  // checks the range
    std::memcpy(target + begin * columns * core::size_of(dtype), part.raw(),
                static_cast<std::size_t>(part.bytes()));
  }
  return turned;
}

bool any(const std::vector<float>& values) {
  return std::any_of(values.begin(), values.end(), [](float value) { return value != 0.0f; });
}

std::vector<float> dense_values(const ops::Linear& layer) {
  return core::to_float32(layer.weight.dense);
}

void set_values(ops::Linear& layer, const std::vector<float>& values) {
  layer.weight =
      formats::dense_weight(Tensor::from<float>(values, {layer.weight.n, layer.weight.k}));
}

// b <- b + W bias.
void fold_bias(ops::Linear& layer, const std::vector<float>& w, const std::vector<float>& bias) {
  core::require(!layer.bias.empty(), ErrorKind::kUsage,
                "pass 'rotate': layer {} has no bias that could take that of the norm before it",
                layer.name);
  for (std::size_t i = 0; i < layer.bias.size(); ++i) {
    double sum = static_cast<double>(layer.bias[i]);
    for (std::size_t j = 0; j < bias.size(); ++j) {
      sum += static_cast<double>(w[i * bias.size() + j]) * static_cast<double>(bias[j]);
    }
    layer.bias[i] = static_cast<float>(sum);
  }
}

// The layers behind a norm.
void turn_set(ops::LinearSet& set, const ops::Norm& norm, const Rotation& rotation,
              core::ThreadPool& pool) {
  for (ops::Linear& part : set.parts) {
    std::vector<float> w = dense_values(part);
    if (any(norm.bias)) {
      fold_bias(part, w, norm.bias);
    }
    turn_inputs(w, part.weight.k, norm.weight, rotation, pool);
    set_values(part, w);
  }
}

// The layer whose outputs go into the residual stream; `heads` turns its inputs, where given.
void turn_back(ops::Linear& layer, const Rotation* heads, const Rotation& stream,
               core::ThreadPool& pool) {
  std::vector<float> w = dense_values(layer);
  if (heads != nullptr) {
    turn_inputs(w, layer.weight.k, {}, *heads, pool);
  }
  turn_outputs(w, layer.weight.k, layer.bias, 0, layer.weight.n, stream, pool);
  set_values(layer, w);
}

void make_plain(ops::Norm& norm) {
  std::fill(norm.weight.begin(), norm.weight.end(), 1.0f);
  std::fill(norm.bias.begin(), norm.bias.end(), 0.0f);
}

// The norm before the output matrix, which takes the weight but has no bias: what it adds is
// written in turned channels, (bias / weight) R.
ops::Norm plain_final_norm(ops::Norm norm, const Rotation& rotation) {
  std::vector<double> bias;
  for (std::size_t i = 0; i < norm.bias.size(); ++i) {
    core::require(norm.bias[i] == 0.0f || norm.weight[i] != 0.0f, ErrorKind::kUsage,
                  "pass 'rotate': channel {} of norm {} has a bias and no weight", i, norm.name);
    bias.push_back(norm.bias[i] == 0.0f
                       ? 0.0
                       : static_cast<double>(norm.bias[i]) / static_cast<double>(norm.weight[i]));
  }
  rotation.apply(bias);
  make_plain(norm);
  std::transform(bias.begin(), bias.end(), norm.bias.begin(),
                 [](double value) { return static_cast<float>(value); });
  return norm;
}

}  // namespace

ModelRotation::ModelRotation(const models::Network& network, std::uint64_t seed)
    : stream_(stream_rotation(network, seed)), heads_(head_rotation(network.config)) {}

ChangedEnds ModelRotation::ends(const models::Network& network, core::ThreadPool& pool) const {
  const DType dtype =
      network.embeddings.tokens.plain().dtype() == DType::kF32 ? DType::kF32 : DType::kF16;
  ChangedEnds ends;
  ends.embedding = turn_table(network.embeddings.tokens.plain(), dtype, {}, stream_, pool);
  if (!network.embeddings.positions.empty()) {
    ends.positions = turn_table(network.embeddings.positions, dtype, {}, stream_, pool);
  }
  ends.output = turn_table(network.output.parts.front().weight.dense, dtype,
                           network.decoder.final_norm->weight, stream_, pool);
  ends.final_norm = plain_final_norm(*network.decoder.final_norm, stream_);
  return ends;
}

models::Block ModelRotation::block(const models::Block& original, core::ThreadPool& pool) const {
  models::Block block = original;
  models::Attention& attention = block.attention;
  turn_set(attention.qkv, block.attention_norm, stream_, pool);
  ops::Linear& values = attention.qkv.parts.back();
  const std::int64_t value_rows = attention.spec.kv_heads * attention.spec.head_dim;
  std::vector<float> w = dense_values(values);
  turn_outputs(w, values.weight.k, values.bias, values.weight.n - value_rows, value_rows, heads_,
               pool);
  set_values(values, w);
  turn_back(attention.out.parts.front(), &heads_, stream_, pool);
  const auto turn_mlp = [&](models::Mlp& mlp) {
    turn_set(mlp.up, block.mlp_norm, stream_, pool);
    turn_back(mlp.down.parts.front(), nullptr, stream_, pool);
  };
  if (block.router) {
    turn_set(*block.router, block.mlp_norm, stream_, pool);
  }
  if (block.mlp) {
    turn_mlp(*block.mlp);
  }
  std::for_each(block.experts.begin(), block.experts.end(), turn_mlp);
  make_plain(block.attention_norm);
  make_plain(block.mlp_norm);
  return block;
}

}  // namespace nibble::compress
