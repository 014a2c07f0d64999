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
  if (config.gated) {
    return ops.linear(input, mlp.up, ops::GateInto{config.activation, mlp.down});
  }
  return ops.mlp_activation(ops.linear(input, mlp.up), config.activation, mlp.down);
}

/// What has yet to be added to the residual stream: nothing, where it was added on the way.
template <ops::Ops O>
using Delta = std::optional<typename O::Matrix>;

/// linear() for the residual stream x.
template <ops::Ops O>
Delta<O> linear_onto(O& ops, typename O::Matrix& x, typename O::Input& input,
                     const ops::LinearSet& set) {
  return ops.linear(input, set, ops::Residual<typename O::Matrix>{x});
}

/// norm(x) for the layers of `set`, after x += delta.
template <ops::Ops O>
typename O::Input norm_of_sum(O& ops, typename O::Matrix& x, const Delta<O>& delta,
                              const ops::Norm& norm, const ops::LinearSet& set) {
  return delta ? ops.add_norm(x, *delta, norm, set) : ops.norm(x, norm, set);
}

/// Feed-forward part of an expert, for an input that is ready for mlp.up.
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
/// to x; returns what this block has yet to add, so that the addition can be fused with the next
/// norm.
template <ops::Ops O>
Delta<O> run_block(O& ops, const DecoderConfig& config, const Block& block, std::int64_t layer,
                   const Batch<O>& batch, typename O::Matrix& x, const Delta<O>& delta) {
  const Attention& attention = block.attention;
  auto input = norm_of_sum(ops, x, delta, block.attention_norm, attention.qkv);
  auto qkv = ops.linear(input, attention.qkv);
  auto heads = ops.attention(qkv, attention.spec, layer, batch, attention.out);
  const auto attended = linear_onto(ops, x, heads, attention.out);
  if (block.mlp) {
    auto mlp_input = norm_of_sum(ops, x, attended, block.mlp_norm, block.mlp->up);
    auto middle = run_mlp_up(ops, config, *block.mlp, mlp_input);
    return linear_onto(ops, x, middle, block.mlp->down);
  }
  if (attended) {
    ops.add(x, *attended);
  }
  return run_experts(ops, config, block, ops.norm_matrix(x, block.mlp_norm));
}

/// The residual stream after all blocks, [m, hidden], before the final norm.
template <ops::Ops O>
typename O::Matrix hidden_states(O& ops, const Decoder& model, const Batch<O>& batch) {
  auto x = embed(ops, model, batch);
  Delta<O> delta;
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    delta = run_block(ops, model.config, model.blocks[layer], static_cast<std::int64_t>(layer),
                      batch, x, delta);
  }
  if (delta) {
    ops.add(x, *delta);
  }
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
