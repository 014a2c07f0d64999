#pragma once

#include "models/forward.h"

/// The forward pass of an encoder and its heads. Texts stand one after another in the batch,
/// without padding; each sees itself only.
namespace nibble::models {

/// The tables of the encoder's embeddings at the batch's tokens, [m, hidden].
template <ops::EncoderOps O>
typename O::Matrix embed_for_encoder(O& ops, const Network& network, const Batch<O>& batch) {
  return embed(ops, network.embeddings_of_encoder(), network.config.position_offset, batch);
}

/// The encoder's states, of its residual stream behind all blocks.
template <ops::EncoderOps O>
typename O::Matrix encoder_states(O& ops, const Network& network, typename O::Matrix x) {
  const auto& norm = network.encoder.final_norm;
  return norm ? ops.norm_matrix(x, *norm) : std::move(x);
}

/// What the encoder makes of the batch's tokens, [m, hidden].
template <ops::EncoderOps O>
typename O::Matrix encode(O& ops, const Network& network, const Batch<O>& batch) {
  auto x = embed_for_encoder(ops, network, batch);
  run_stack(ops, network.config, network.encoder, batch, x);
  return encoder_states(ops, network, std::move(x));
}

/// Keeps keys and values of the encoder's states for one block of the decoder.
template <ops::EncoderOps O>
void remember(O& ops, const CrossAttention& cross, std::int64_t layer, const Batch<O>& batch,
              const typename O::Matrix& states) {
  auto input = ops.input(states, cross.kv);
  ops.remember(ops.linear(input, cross.kv), cross.spec, layer, batch);
}

/// Keeps keys and values of the encoder's states for all blocks of the decoder, in the memory of
/// the batch's slices.
template <ops::EncoderOps O>
void remember(O& ops, const Network& network, const Batch<O>& batch,
              const typename O::Matrix& states) {
  const auto& blocks = network.decoder.blocks;
  for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
    remember(ops, *blocks[layer].cross, static_cast<std::int64_t>(layer), batch, states);
  }
}

/// What a head makes of rows of states [m, hidden]: [m, outputs].
template <ops::EncoderOps O>
typename O::Matrix run_head(O& ops, const Head& head, const typename O::Matrix& states) {
  if (!head.dense) {
    auto input = ops.input(states, head.out);
    return ops.linear(input, head.out);
  }
  auto input = ops.input(states, *head.dense);
  auto middle = ops.linear(input, *head.dense);
  ops.activate(middle, head.activation);
  auto last = head.norm ? ops.norm(middle, *head.norm, head.out) : ops.input(middle, head.out);
  return ops.linear(last, head.out);
}

}  // namespace nibble::models
