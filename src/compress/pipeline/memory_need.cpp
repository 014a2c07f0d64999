#include "compress/pipeline/memory_need.h"

#include <algorithm>
#include <iterator>

#include "compress/calibration/output_curvature.h"
#include "compress/calibration/sampled_gradients.h"

namespace nibble::compress {
namespace {

std::int64_t statistics_bytes(StatisticsKind kind, std::int64_t k) {
  switch (kind) {
    case StatisticsKind::kNone:
      return 0;
    case StatisticsKind::kChannels:
      return 20 * k;  // a float and two doubles
    case StatisticsKind::kHessian:
      return 4 * k * k;
    case StatisticsKind::kCross:
      return 8 * k * k;
  }
  return 0;
}

// Hessians being factored: in float64, and the factor in float32; to correct for changed inputs the
// cross products too.
std::int64_t factor_bytes(StatisticsKind kind, std::int64_t k) {
  return (kind == StatisticsKind::kCross ? 20 : kind == StatisticsKind::kHessian ? 12 : 0) * k * k;
}

// Inputs and outputs of all layers for one token.
std::int64_t values_of(const models::Block& block) {
  std::int64_t values = 0;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    values += set->k() + set->n();
  }
  return values;
}

// Those of a window, and of the original model beside them.
std::int64_t activation_bytes(const models::Block& block, const BlockDemand& demand) {
  return 4 * demand.tokens * values_of(block) *
         (demand.statistics == StatisticsKind::kCross ? 2 : 1);
}

std::int64_t need_of(const models::Block& block, const BlockDemand& demand) {
  constexpr std::int64_t kWork = 8;  // bytes of a weight: two float32 copies
  constexpr std::int64_t kCopy = 4;  // one
  std::int64_t most = 0;
  std::int64_t weights = 0;     // of the sets that are still to be compressed
  std::int64_t statistics = 0;  // of these
  auto sets = models::linear_sets(block);
  std::reverse(sets.begin(), sets.end());
  for (const ops::LinearSet* set : sets) {
    const std::int64_t k = set->k();
    weights += set->n() * k;
    const std::int64_t own = statistics_bytes(demand.statistics, k);
    statistics = demand.true_sequential ? own : statistics + own;
    most = std::max(most, kWork * weights + statistics + factor_bytes(demand.statistics, k));
  }
  if (demand.true_sequential) {  // the block as it has become, and the original for asymmetry
    const std::int64_t copies = demand.statistics == StatisticsKind::kCross ? 2 : 1;
    most += copies * kCopy * weights;
  }
  const std::int64_t transformed = demand.transforms_model ? kCopy * weights : 0;
  const std::int64_t packed = weights;  // at most 8 bits each
  return std::max(most, kCopy * weights) + transformed + packed + activation_bytes(block, demand);
}

// Two float32 copies of the weights, their Hessian and its factor, what they become, and the final
// norm of a window with what goes in.
std::int64_t output_need(const ops::LinearSet& output, const BlockDemand& demand) {
  constexpr std::int64_t kWork = 8;
  const std::int64_t k = output.k();
  const std::int64_t weights = output.n() * k;
  const std::int64_t streams = demand.statistics == StatisticsKind::kCross ? 2 : 1;
  return (kWork + 1) * weights + statistics_bytes(demand.statistics, k) +
         factor_bytes(demand.statistics, k) + 8 * streams * demand.tokens * k;
}

std::int64_t set_curvature(const ops::LinearSet& set, const BlockDemand& demand) {
  std::int64_t bytes = 4 * demand.all_tokens;
  for (const ops::Linear& part : set.parts) {
    bytes += OutputCurvature::bytes_for(part.weight.n);
  }
  return bytes;
}

}  // namespace

std::int64_t block_memory(const models::Network& network, const BlockDemand& demand) {
  std::int64_t most = 0;
  for (const models::Block* block : models::all_blocks(network)) {
    most = std::max(most, need_of(*block, demand));
  }
  if (demand.rounds_output) {
    most = std::max(most, output_need(network.output, demand));
  }
  return most + curvature_memory(network, demand);
}

std::int64_t curvature_memory(const models::Network& network, const BlockDemand& demand) {
  if (!demand.needs_curvature) {
    return 0;
  }
  std::int64_t bytes = 0;
  for (const models::Block* block : models::all_blocks(network)) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      bytes += set_curvature(*set, demand);
    }
  }
  if (demand.rounds_output) {
    bytes += set_curvature(network.output, demand);
  }
  return bytes;
}

std::int64_t curvature_measuring_memory(const models::Network& network, const BlockDemand& demand) {
  if (!demand.needs_curvature) {
    return 0;
  }
  const std::int64_t tokens = demand.tokens;
  std::int64_t squares = demand.rounds_output ? 4 * demand.all_tokens : 0;
  std::int64_t largest = 0;
  for (const models::Block* block : models::all_blocks(network)) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      squares += 4 * demand.all_tokens * std::ssize(set->parts);
    }
    largest = std::max(largest, values_of(*block));
  }
  const std::int64_t hidden = tokens * network.config.hidden;
  const std::int64_t states = (4 * std::ssize(models::all_blocks(network)) + 24) * hidden;
  const std::int64_t logits = 8 * std::min(tokens, kLogitRows) * network.config.vocabulary;
  return curvature_memory(network, demand) + squares + states + 8 * tokens * largest +
         8 * tokens * tokens + logits;
}

}  // namespace nibble::compress
