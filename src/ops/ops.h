#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/layers.h"

namespace nibble::ops {

/// Rows of a batch that belong to one sequence: rows [row, row + rows) continue `cache` at
/// `position`.
template <typename Cache>
struct SequenceSlice {
  Cache* cache = nullptr;  // null: the rows attend among themselves only and nothing is kept
  std::int64_t position = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  Cache* memory = nullptr;       // keys and values of another text, which an encoder has read, and
  std::int64_t memory_rows = 0;  // its tokens; null where no layer attends to one
  std::int64_t prompt_rows = 0;  // the first of the rows, whose tokens were given and not written
                                 // by the model: a device may compute them in another way
};

/// Tokens of one forward pass, all sequences one after another.
template <typename Cache>
struct Batch {
  std::span<const std::int32_t> tokens;     // [m]
  std::span<const std::int32_t> positions;  // [m], of each token in its sequence
  std::span<const SequenceSlice<Cache>> slices;
  std::span<const std::int32_t> types = {};  // [m], token types of models that know them
};

/// Token rows that one expert computes.
struct ExpertRows {
  std::vector<std::int32_t> rows;  // row of the batch
  std::vector<float> weights;      // its share in the row's sum
};

/// What becomes of the product of a linear layer, in the place of a matrix of its own. A device
/// does it on the way where the layer's kernel takes such an epilogue (linear_problem.h), and else
/// by operators of its own.
///
/// x += y.
template <typename Matrix>
struct Residual {
  Matrix& x;
};
/// activation(y), or activation(gate) * up where y is gate|up, made ready for the layers of `next`.
struct ActivateInto {
  MlpActivation activation = MlpActivation::kSilu;
  const LinearSet& next;
  bool gated = false;
};

/// The operators that a forward pass is written over; one implementation for each device.
///
/// `Matrix` is a matrix [rows, columns] on the device, of float32 or what the device takes for it.
/// `Input` is an activation made ready for the linear layers that read it: every operator that
/// feeds a linear layer takes the set of layers and returns an Input that is already quantized (and
/// scaled) the way their weights want it. That is the only way to write it, so the fusion is free
/// to happen on each device.
template <typename O>
concept Ops = requires(O ops, typename O::Matrix matrix, typename O::Input input,
                       const typename O::Matrix& x, const LinearSet& set, const Norm& norm,
                       const AttentionSpec& attention, const Batch<typename O::Cache>& batch,
                       const core::Tensor& table, std::span<const std::int32_t> ids,
                       MlpActivation activation, std::int64_t layer, const RoutingSpec& routing,
                       const ExpertRows& expert) {
  // Rows of `table` [vocabulary, hidden].
  { ops.embed(table, ids) } -> std::same_as<typename O::Matrix>;
  // matrix += rows of `table` at `ids` plus an offset (learned positions).
  ops.add_rows(matrix, table, ids, layer);
  // norm(x) for the layers of `set`; with a delta, x += delta first.
  { ops.norm(x, norm, set) } -> std::same_as<typename O::Input>;
  { ops.add_norm(matrix, x, norm, set) } -> std::same_as<typename O::Input>;
  // x = norm(x + delta), which is also what the layers of `set` read: for norms that stand in the
  // residual stream, behind the layers (post-norm).
  { ops.post_norm(matrix, x, norm, set) } -> std::same_as<typename O::Input>;
  ops.add(matrix, x);
  // y = x W^T + bias for all layers of the set, side by side.
  { ops.linear(input, set) } -> std::same_as<typename O::Matrix>;
  // x += y, or what has yet to be added.
  {
    ops.linear(input, set, Residual<typename O::Matrix>{matrix})
    } -> std::same_as<std::optional<typename O::Matrix>>;
  { ops.linear(input, set, ActivateInto{activation, set}) } -> std::same_as<typename O::Input>;
  // qkv [m, (heads + 2 kv_heads) head_dim]: QK norm, RoPE, append to the caches, attend.
  { ops.attention(matrix, attention, layer, batch, set) } -> std::same_as<typename O::Input>;
  // Router logits [m, experts] to the rows of each expert.
  { ops.route(x, routing) } -> std::same_as<std::vector<ExpertRows>>;
  // Rows of x in float32, and their weighted return: matrix[row] += weight * x[i].
  { ops.gather(x, ids) } -> std::same_as<typename O::Matrix>;
  ops.scatter_add(matrix, x, expert);
  // x as it is, made ready for `set`.
  { ops.input(matrix, set) } -> std::same_as<typename O::Input>;
  // norm(x) as a matrix (MoE gathers rows from it).
  { ops.norm_matrix(x, norm) } -> std::same_as<typename O::Matrix>;
  // A matrix [rows, columns] of zeros.
  { ops.zeros(layer, layer) } -> std::same_as<typename O::Matrix>;
};

/// What encoders, their heads, and decoders behind them need beside it, on devices that run
/// encoders.
template <typename O>
concept EncoderOps = Ops<O> &&
    requires(O ops, typename O::Matrix matrix, const typename O::Matrix& x,
             MlpActivation activation, float factor, const AttentionSpec& attention,
             std::int64_t layer, const Batch<typename O::Cache>& batch, const LinearSet& set) {
  // matrix = activation(matrix), matrix *= factor.
  ops.activate(matrix, activation);
  ops.scale(matrix, factor);
  // The matrix as float32, where a device computes in less: for what leaves it, and for heads.
  { ops.widened(std::move(matrix)) } -> std::same_as<typename O::Matrix>;
  // k|v [m, 2 kv_heads head_dim] of the batch's rows to the memories of its slices.
  ops.remember(x, attention, layer, batch);
  // q [m, heads head_dim] attends to all that the memories of its slices hold.
  { ops.attend(x, attention, layer, batch, set) } -> std::same_as<typename O::Input>;
};

}  // namespace nibble::ops
