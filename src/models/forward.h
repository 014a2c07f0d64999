#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "core/error.h"
#include "models/network.h"
#include "ops/ops.h"

/// The forward pass of every family, written once over the operators of a device.
namespace nibble::models {

template <ops::Ops O>
using Batch = ops::Batch<typename O::Cache>;

/// A linear layer from one width to another where there is one, x itself where there is none.
template <ops::Ops O>
typename O::Matrix project(O& ops, const std::optional<ops::LinearSet>& layer,
                           typename O::Matrix x) {
  if (!layer) {
    return x;
  }
  auto input = ops.input(x, *layer);
  return ops.linear(input, *layer);
}

/// Rows of `table`. What does not look up stored rows gets the whole table, decoded.
template <ops::Ops O>
typename O::Matrix embed(O& ops, const TokenTable& table, std::span<const std::int32_t> tokens) {
  if constexpr (requires(const ops::StoredRows& rows) { ops.embed(rows, tokens); }) {
    if (table.stored() != nullptr) {
      return ops.embed(*table.stored(), tokens);
    }
  }
  return ops.embed(table.plain(), tokens);
}

/// The batch's tokens in `tables`, with learned positions, of which the first is row `offset`, and
/// token types where the family has them, behind their norm where there is one: [m, hidden].
template <ops::Ops O>
typename O::Matrix embed(O& ops, const Embeddings& tables, std::int64_t offset,
                         const Batch<O>& batch) {
  auto x = project(ops, tables.project_in, embed(ops, tables.tokens, batch.tokens));
  if constexpr (ops::EncoderOps<O>) {
    if (tables.scale != 1.0f) {
      ops.scale(x, tables.scale);
    }
  } else {
    core::require(tables.scale == 1.0f, core::ErrorKind::kUsage,
                  "a scaled embedding is not built for what computes here; use --device cpu");
  }
  if (!tables.positions.empty()) {
    ops.add_rows(x, tables.positions, batch.positions, offset);
  }
  if (!tables.types.empty()) {
    ops.add_rows(x, tables.types, batch.types, 0);
  }
  return tables.norm ? ops.norm_matrix(x, *tables.norm) : std::move(x);
}

/// Embeddings of the decoder, or of the only stack.
template <ops::Ops O>
typename O::Matrix embed(O& ops, const Network& network, const Batch<O>& batch) {
  return embed(ops, network.embeddings, network.config.position_offset, batch);
}

/// What stands between the two layers of an MLP, ready for mlp.down.
template <ops::Ops O>
typename O::Input run_mlp_up(O& ops, const NetworkConfig& config, const Mlp& mlp,
                             typename O::Input& input) {
  return ops.linear(input, mlp.up, ops::ActivateInto{config.activation, mlp.down, config.gated});
}

/// What is yet to be done to the residual stream x: x += delta and, in post-norm blocks,
/// x = norm(x) then. It is left to the operator that reads x next, which may do both in one.
template <ops::Ops O>
struct Pending {
  std::optional<typename O::Matrix> delta;  // nothing where it was added on the way
  const ops::Norm* norm = nullptr;          // with a delta
};

/// Does what is pending for x.
template <ops::Ops O>
void settle(O& ops, typename O::Matrix& x, const Pending<O>& pending) {
  if (pending.delta) {
    ops.add(x, *pending.delta);
  }
  if (pending.norm != nullptr) {
    x = ops.norm_matrix(x, *pending.norm);
  }
}

/// The residual stream x, when what is pending is done, as the layers of `set` read it: behind
/// `norm` in pre-norm blocks.
template <ops::Ops O>
typename O::Input read_stream(O& ops, NormPlacement norms, typename O::Matrix& x,
                              const Pending<O>& pending, const ops::Norm& norm,
                              const ops::LinearSet& set) {
  if (norms == NormPlacement::kPre) {
    return pending.delta ? ops.add_norm(x, *pending.delta, norm, set) : ops.norm(x, norm, set);
  }
  return pending.norm != nullptr ? ops.post_norm(x, *pending.delta, *pending.norm, set)
                                 : ops.input(x, set);
}

/// linear() for the residual stream x, that post-norm blocks put `norm` behind. `out_norm`: of what
/// is added, where there is one.
template <ops::Ops O>
Pending<O> write_stream(O& ops, NormPlacement norms, typename O::Matrix& x,
                        typename O::Input& input, const ops::LinearSet& set, const ops::Norm& norm,
                        const std::optional<ops::Norm>& out_norm) {
  if (out_norm) {
    return {ops.norm_matrix(ops.linear(input, set), *out_norm)};
  }
  if (norms == NormPlacement::kPost) {
    return {ops.linear(input, set), &norm};
  }
  return {ops.linear(input, set, ops::Residual<typename O::Matrix>{x})};
}

/// Feed-forward part of an expert, for an input that is ready for mlp.up.
template <ops::Ops O>
typename O::Matrix run_mlp(O& ops, const NetworkConfig& config, const Mlp& mlp,
                           typename O::Input& input) {
  auto middle = run_mlp_up(ops, config, mlp, input);
  return ops.linear(middle, mlp.down);
}

/// Mixture of experts: each token's rows go to its `top` experts and return weighted.
template <ops::Ops O>
typename O::Matrix run_experts(O& ops, const NetworkConfig& config, const Block& block,
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

/// Attention of a block to the encoder's states, whose keys and values remember() has kept.
template <ops::EncoderOps O>
Pending<O> attend_to_encoder(O& ops, NormPlacement norms, const CrossAttention& cross,
                             std::int64_t layer, const Batch<O>& batch, typename O::Matrix& x,
                             const Pending<O>& pending) {
  auto input = read_stream(ops, norms, x, pending, cross.norm, cross.q);
  auto heads = ops.attend(ops.linear(input, cross.q), cross.spec, layer, batch, cross.out);
  return write_stream(ops, norms, x, heads, cross.out, cross.norm, std::nullopt);
}

/// One block on the residual stream x [m, hidden], whose norms stand where `norms` says. `pending`
/// is what the block before left to be done; returns what this one leaves. Experts stand in
/// pre-norm blocks only.
template <ops::Ops O>
Pending<O> run_block(O& ops, const NetworkConfig& config, NormPlacement norms, const Block& block,
                     std::int64_t layer, const Batch<O>& batch, typename O::Matrix& x,
                     const Pending<O>& pending) {
  const Attention& attention = block.attention;
  auto input = read_stream(ops, norms, x, pending, block.attention_norm, attention.qkv);
  auto qkv = ops.linear(input, attention.qkv);
  auto heads = ops.attention(qkv, attention.spec, layer, batch, attention.out);
  auto attended = write_stream(ops, norms, x, heads, attention.out, block.attention_norm,
                               block.attention_out_norm);
  if constexpr (ops::EncoderOps<O>) {
    if (block.cross) {
      attended = attend_to_encoder(ops, norms, *block.cross, layer, batch, x, attended);
    }
  }
  if (block.mlp) {
    auto mlp_input = read_stream(ops, norms, x, attended, block.mlp_norm, block.mlp->up);
    auto middle = run_mlp_up(ops, config, *block.mlp, mlp_input);
    return write_stream(ops, norms, x, middle, block.mlp->down, block.mlp_norm, block.mlp_out_norm);
  }
  settle(ops, x, attended);
  auto sum = run_experts(ops, config, block, ops.norm_matrix(x, block.mlp_norm));
  return {block.mlp_out_norm ? ops.norm_matrix(sum, *block.mlp_out_norm) : std::move(sum)};
}

/// Moves the residual stream x [m, hidden] through one block, which leaves nothing to be done.
template <ops::Ops O>
void move_through(O& ops, const NetworkConfig& config, NormPlacement norms, const Block& block,
                  std::int64_t layer, const Batch<O>& batch, typename O::Matrix& x) {
  settle(ops, x, run_block(ops, config, norms, block, layer, batch, x, {}));
}

/// Moves it through all blocks of a stack.
template <ops::Ops O>
void run_stack(O& ops, const NetworkConfig& config, const Stack& stack, const Batch<O>& batch,
               typename O::Matrix& x) {
  Pending<O> pending;
  for (std::size_t layer = 0; layer < stack.blocks.size(); ++layer) {
    pending = run_block(ops, config, stack.norms, stack.blocks[layer],
                        static_cast<std::int64_t>(layer), batch, x, pending);
  }
  settle(ops, x, pending);
}

/// The residual stream after all blocks, [m, hidden], before the final norm.
template <ops::Ops O>
typename O::Matrix hidden_states(O& ops, const Network& network, const Batch<O>& batch) {
  auto x = embed(ops, network, batch);
  run_stack(ops, network.config, network.decoder, batch, x);
  return x;
}

/// Hidden states [m, hidden] as the output layer reads them: behind the final norm, where there is
/// one, and the projection to the width of the output, where that is another.
template <ops::Ops O>
typename O::Matrix final_states(O& ops, const Network& network, typename O::Matrix hidden) {
  const auto& norm = network.decoder.final_norm;
  return project(ops, network.project_out,
                 norm ? ops.norm_matrix(hidden, *norm) : std::move(hidden));
}

/// Logits of a model whose logits are capped, in place.
template <ops::Ops O>
typename O::Matrix capped(O& ops, const NetworkConfig& config, typename O::Matrix logits) {
  if constexpr (ops::EncoderOps<O>) {
    if (config.logit_softcap > 0.0f) {
      ops.scale(logits, 1.0f / config.logit_softcap);
      ops.activate(logits, ops::MlpActivation::kTanh);
      ops.scale(logits, config.logit_softcap);
    }
  } else {
    core::require(config.logit_softcap == 0.0f, core::ErrorKind::kUsage,
                  "soft-capped logits are not built for what computes here; use --device cpu");
  }
  return logits;
}

/// Logits [m, vocabulary] of hidden states [m, hidden].
template <ops::Ops O>
typename O::Matrix logits(O& ops, const Network& network, const typename O::Matrix& hidden) {
  const auto& norm = network.decoder.final_norm;
  const ops::LinearSet& first = network.project_out ? *network.project_out : network.output;
  auto input = norm ? ops.norm(hidden, *norm, first) : ops.input(hidden, first);
  if (!network.project_out) {
    return capped(ops, network.config, ops.linear(input, network.output));
  }
  auto narrow = ops.input(ops.linear(input, first), network.output);
  return capped(ops, network.config, ops.linear(narrow, network.output));
}

/// Logits of the given rows of the batch.
template <ops::Ops O>
typename O::Matrix forward(O& ops, const Network& network, const Batch<O>& batch,
                           std::span<const std::int32_t> rows) {
  return logits(ops, network, ops.gather(hidden_states(ops, network, batch), rows));
}

}  // namespace nibble::models
