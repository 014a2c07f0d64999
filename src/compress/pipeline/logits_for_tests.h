#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

/// What the tests of exact transformations compare.
namespace nibble::compress {

/// Logits [30, vocabulary] of 30 fixed tokens. Compressed layers run as `ops` was told to.
inline std::vector<float> logits(const models::Network& network, ops::cpu::CpuOps& ops) {
  std::vector<std::int32_t> tokens(30);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * 13 % 64);
  }
  std::vector<std::int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  const ops::SequenceSlice<ops::cpu::KvCache> alone{nullptr, 0, 0,
                                                    static_cast<std::int64_t>(tokens.size())};
  const models::Batch<ops::cpu::CpuOps> batch{tokens, positions, {&alone, 1}};
  const auto result = models::forward(ops, network, batch, positions);
  return {result.values().begin(), result.values().end()};
}

}  // namespace nibble::compress
