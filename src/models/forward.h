#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "models/decoder.h"
#include "ops/ops.h"

/// The forward pass of every decoder family, written once over the operators of a device.
namespace nibble::models {

template <ops::Ops O>
using Batch = ops::Batch<typename O::Cache>;

/// Embeddings of the batch's tokens, with learned positions where the family has them: [m, hidden].
template <ops::Ops O>
typename O::Matrix embed(O& ops, const Decoder& model, const Batch<O>& batch) {
  auto x = ops.embed(model.embedding, batch.tokens);
  if (!model.positions.empty()) {
    ops.add_rows(x, model.positions, batch.positions, model.config.position_offset);
  }
  return x;
}

/// What stands between the two layers of an MLP, ready for mlp.down.
template <ops::Ops O>
typename O::Input run_mlp_up(O& ops, const DecoderConfig& config, const Mlp& mlp,
                             typename O::Input& input) {
  if constexpr (ops::JoinsGates<O>) {
    if (config.gated) {
      return ops.gated_linear(input, mlp.up, config.activation, mlp.down);
    }
  }
  const auto up = ops.linear(input, mlp.up);
  return config.gated ? ops.gated_activation(up, config.activation, mlp.down)
                      : ops.mlp_activation(up, config.activation, mlp.down);
}

/// Feed-forward part for an input that is ready for mlp.up; returns what is added to the residual.
template <ops::Ops O>
typename O::Matrix run_mlp(O& ops, const DecoderConfig& config, const Mlp& mlp,
                           typename O::Input& input) {
  auto middle = run_mlp_up(ops, config, mlp, input);
  return ops.linear(middle, mlp.down);
}

/// Mixture of experts: each token's rows go to its `top` experts and return weighted.
template <ops::Ops O>
typename O::Matrix run_experts(O& ops, const DecoderConfig& config, const Block& block,
                               const typename O::Matrix& x) {
  auto router_input = ops.input(x, *block.router);
  const auto routes = ops.route(ops.linear(router_input, *block.router), config.routing);
  auto sum = ops.zeros(x.rows(), x.columns());
  for (std::size_t e = 0; e < routes.size(); ++e) {
    if (routes[e].rows.empty()) {
      continue;
    }
    auto input = ops.input(ops.gather(x, routes[e].rows), block.experts[e].up);
    ops.scatter_add(sum, run_mlp(ops, config, block.experts[e], input), routes[e]);
  }
  return sum;
}

/// One block on the residual stream x [m, hidden]. `delta` is what the block before has yet to add
/// to x (empty at the first block); returns what this block adds, so that the addition can be fused
/// with the next norm.
template <ops::Ops O>
typename O::Matrix run_block(O& ops, const DecoderConfig& config, const Block& block,
                             std::int64_t layer, const Batch<O>& batch, typename O::Matrix& x,
                             const std::optional<typename O::Matrix>& delta) {
  const Attention& attention = block.attention;
  auto input = delta ? ops.add_norm(x, *delta, block.attention_norm, attention.qkv)
                     : ops.norm(x, block.attention_norm, attention.qkv);
  auto qkv = ops.linear(input, attention.qkv);
  auto heads = ops.attention(qkv, attention.spec, layer, batch, attention.out);
  const auto attended = ops.linear(heads, attention.out);
  if (block.mlp) {
    auto mlp_input = ops.add_norm(x, attended, block.mlp_norm, block.mlp->up);
    return run_mlp(ops, config, *block.mlp, mlp_input);
  }
  ops.add(x, attended);
  return run_experts(ops, config, block, ops.norm_matrix(x, block.mlp_norm));
}

/// The residual stream after all blocks, [m, hidden], before the final norm.
template <ops::Ops O>
typename O::Matrix hidden_states(O& ops, const Decoder& model, const Batch<O>& batch) {
  auto x = embed(ops, model, batch);
  std::optional<typename O::Matrix> delta;
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    delta = run_block(ops, model.config, model.blocks[layer], static_cast<std::int64_t>(layer),
                      batch, x, delta);
  }
  ops.add(x, *delta);
  return x;
}

/// Logits [m, vocabulary] of hidden states [m, hidden].
template <ops::Ops O>
typename O::Matrix logits(O& ops, const Decoder& model, const typename O::Matrix& hidden) {
  auto input = ops.norm(hidden, model.final_norm, model.output);
  return ops.linear(input, model.output);
}

/// Logits of the given rows of the batch.
template <ops::Ops O>
typename O::Matrix forward(O& ops, const Decoder& model, const Batch<O>& batch,
                           std::span<const std::int32_t> rows) {
  return logits(ops, model, ops.gather(hidden_states(ops, model, batch), rows));
}

}  // namespace nibble::models
