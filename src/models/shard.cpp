#include "models/shard.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace nibble::models {
namespace {

using core::ErrorKind;

constexpr std::int64_t kUnit = 16;       // rows of a tile of the packed kernels
constexpr std::int64_t kWideUnit = 128;  // inputs of a unit of GPUs' kernels

// The part of `count` things that cannot be cut.
Range units_of(std::int64_t count, const Shard& shard) {
  return {count * shard.rank / shard.size, count * (shard.rank + 1) / shard.size};
}

// Of all ranks.
template <typename PartOf>
ops::Widths widths(int ranks, PartOf part) {
  ops::Widths all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(part(Shard{rank, ranks}).size());
  }
  return all;
}

}  // namespace

Range part_of(std::int64_t count, const Shard& shard, const char* what) {
  core::require(count >= shard.size, ErrorKind::kUsage,
                "{} {} cannot be divided among {} ranks; start fewer", count, what, shard.size);
  const std::int64_t units = (count + kUnit - 1) / kUnit;
  if (units < shard.size) {
    return units_of(count, shard);
  }
  const Range part = units_of(units, shard);
  return {part.begin * kUnit, std::min(count, part.end * kUnit)};
}

Range middle_of(std::int64_t count, const Shard& shard, std::int64_t step) {
  std::int64_t unit = step;
  for (const std::int64_t liked : {kUnit, kWideUnit}) {
    const std::int64_t both = std::lcm(step, liked);
    unit = count >= both * shard.size ? both : unit;
  }
  const std::int64_t units = (count + unit - 1) / unit;
  core::require(units >= shard.size, ErrorKind::kUsage,
                "{} rows of an MLP, which can be cut at multiples of {}, cannot be divided among "
                "{} ranks; start fewer",
                count, step, shard.size);
  const Range part = units_of(units, shard);
  return {part.begin * unit, std::min(count, part.end * unit)};
}

HeadRanges heads_of(const NetworkConfig& config, const Shard& shard) {
  const std::int64_t group = config.heads / config.kv_heads;
  if (config.kv_heads >= shard.size) {
    const Range kv = units_of(config.kv_heads, shard);
    return {{kv.begin * group, kv.end * group}, kv};
  }
  const std::int64_t sharers = shard.size / config.kv_heads;  // ranks that hold one KV head
  core::require(sharers * config.kv_heads == shard.size && sharers <= group, ErrorKind::kUsage,
                "{} heads, of which {} read the same keys, cannot be divided among {} ranks; start "
                "at most {}, or a multiple of that up to {}",
                config.heads, group, shard.size, config.kv_heads, config.heads);
  const std::int64_t kv = shard.rank / sharers;
  const Range part =
      units_of(group, {static_cast<int>(shard.rank % sharers), static_cast<int>(sharers)});
  return {{kv * group + part.begin, kv * group + part.end}, {kv, kv + 1}};
}

void require_divisible(const Architecture& architecture, const Shard& shard) {
  core::require(shard.whole() || (!architecture.is_encoder && !architecture.encoder),
                ErrorKind::kUsage,
                "models with an encoder (family '{}') run on one rank, not on {}; start it without "
                "mpirun",
                architecture.config.family, shard.size);
}

ops::Division division_of(const Network& network, const Shard& shard) {
  ops::Division division;
  if (shard.whole()) {
    return division;
  }
  const NetworkConfig& config = network.config;
  const int ranks = shard.size;
  const auto of = [ranks](std::int64_t count) {
    return widths(ranks, [count](const Shard& each) { return part_of(count, each, "outputs"); });
  };
  ops::Widths heads =
      widths(ranks, [&](const Shard& each) { return heads_of(config, each).heads; });
  for (std::int64_t& width : heads) {
    width *= config.head_dim;
  }
  const auto set = [&division](const ops::LinearSet& of_network) -> ops::Gathering& {
    const auto id = static_cast<std::size_t>(of_network.id);
    division.sets.resize(std::max(division.sets.size(), id + 1));
    return division.sets[id];
  };
  const bool adds = shard.cut == Cut::kInputs;
  const auto behind = [&](const ops::LinearSet& layer, const ops::Widths& inputs) {
    if (adds) {
      set(layer).adds = true;
    } else {
      set(layer) = {inputs, of(config.hidden), false};
    }
  };
  const auto mlp = [&](const Mlp& layers) { behind(layers.down, of(layers.down.k())); };
  for (const Block& block : network.decoder.blocks) {
    behind(block.attention.out, heads);
    if (block.mlp) {
      mlp(*block.mlp);
    }
    std::for_each(block.experts.begin(), block.experts.end(), mlp);
  }
  division.tokens = of(config.vocabulary);
  set(network.output) = {{}, division.tokens, false};
  division.output = network.output.id;
  return division;
}

}  // namespace nibble::models
