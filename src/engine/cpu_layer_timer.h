#pragma once

#include <cstdint>
#include <optional>

#include "engine/kernel_times.h"
#include "engine/layer_groups.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/limits/machine_limits.h"

namespace nibble::engine {

/// Times linear layers of a model on a CPU.
class CpuLayerTimer {
 public:
  explicit CpuLayerTimer(const ops::CpuOptions& options);

  /// The median time of a layer of the group with so many tokens, whose inputs are rounded. Calls
  /// go through the group's layers in turn, as many as do not fit the caches, if there are so many.
  /// Where they fit, the memory is no limit.
  KernelTime time(const LayerGroup& group, std::int64_t tokens);

 private:
  std::vector<ops::LinearSet> prepare(const LayerGroup& group, std::int64_t& bytes);

  ops::ActivationPrecision activations_;
  ops::cpu::CpuOps ops_;
  ops::cpu::MachineLimits limits_;
  std::int64_t cache_bytes_;
};

}  // namespace nibble::engine
