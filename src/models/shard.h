#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "models/architecture.h"
#include "models/model.h"
#include "ops/division.h"

/// A model that several ranks run together: each holds a part of the outputs of the large layers
/// and the keys and values of a part of the heads (tensor parallelism, arXiv 1909.08053).
///
///   layers                        are divided by             what stands behind them
///   query, key, value             heads                      all gather the heads' results
///   attention output              outputs                    all gather the outputs
///   gate, up (of each expert)     rows of the MLP            all gather the middle
///   down (of each expert)         outputs                    all gather the outputs
///   embedding                     tokens                     all gather the tokens' rows
///   output layer                  tokens                     rank 0 gathers the logits
///
/// Norms, the residual stream, router, learned positions and projections are on every rank.
///
/// Every output is one rank's work, from all of its inputs: sums run in the order in which one rank
/// alone adds, so that the results are the same bits, whatever the format (groups, orders of
/// inputs, tails, Hadamards, rounded activations).
///
/// Where it is dear to meet, attention output and down are divided by inputs instead
/// (Cut::kInputs): a rank multiplies what it has made itself, and the ranks' outputs are added.
/// That is one meeting where the table has two. Weights are cut where their format allows
/// (formats::column_cuts), sums run in another order, and inputs that are rounded by one scale for
/// each token are rounded by one for each token and rank.
namespace nibble::models {

/// What divides attention output and down.
enum class Cut { kOutputs, kInputs };

/// Which part of a model is held here.
struct Shard {
  int rank = 0;
  int size = 1;
  Cut cut = Cut::kOutputs;
  bool whole() const { return size == 1; }
};

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// A rank's part of `count` outputs: parts differ by at most one unit of 16, where there are enough
/// of them. Throws kUsage naming `what` when there are fewer outputs than ranks.
Range part_of(std::int64_t count, const Shard& shard, const char* what);

/// A rank's part of `count` rows of an MLP, whose down layer can be cut at multiples of `step`
/// inputs: in units of 128 too, where there are enough of them. Throws kUsage where there are fewer
/// steps than ranks.
Range middle_of(std::int64_t count, const Shard& shard, std::int64_t step);

/// A rank's query heads and the KV heads that they read. KV heads are divided; where there are more
/// ranks than KV heads, several ranks hold the same one. Throws kUsage for numbers of ranks that
/// give no rank whole heads.
struct HeadRanges {
  Range heads;
  Range kv_heads;
};
HeadRanges heads_of(const NetworkConfig& config, const Shard& shard);

/// Throws kUsage for models that are not divided: those with an encoder.
void require_divisible(const Architecture& architecture, const Shard& shard);

/// What the ranks gather that run a network of which this one holds `shard`; nothing where it is
/// the whole.
ops::Division division_of(const Network& network, const Shard& shard);

/// open_model() for one rank: weights that belong to others are not kept. Throws kUsage too, where
/// the model cannot be divided so.
std::shared_ptr<Model> open_model(const std::filesystem::path& path, const Shard& shard,
                                  StoredLayers stored = StoredLayers::kAsTheyAre);

}  // namespace nibble::models
