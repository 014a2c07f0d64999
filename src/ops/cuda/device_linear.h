#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "device/cuda/memory.h"
#include "formats/scheme.h"
#include "ops/cuda/dense/dense.h"
#include "ops/cuda/device_input.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/medium_batch/medium_batch.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/cuda/packed/unit_packer.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/schedules/schedules.h"
#include "ops/cuda/small_batch/small_batch.h"
#include "ops/layers.h"

namespace nibble::ops::cuda {

/// One or more parts of a set that stand side by side, as a GPU runs them: compressed ones of one
/// scheme in units, or one dense one. Adapters are not in it.
class DeviceLinear {
 public:
  /// Packs and uploads parts [first, last) of the set, of one scheme and with one transform of the
  /// input (or none); with `table`, a dense part uses what is there. Schedules are looked up here,
  /// once. Throws kUsage for what no kernel computes, kOutOfMemory; messages name the layer.
  static DeviceLinear packed(const LinearSet& set, std::size_t first, std::size_t last,
                             std::shared_ptr<const DeviceTransform> transform,
                             const Schedules& schedules, UnitPacker& packer);
  static DeviceLinear dense(const Linear& part, std::shared_ptr<device::cuda::Buffer> table);

  /// How m tokens are wanted. Few of them: small_batch.h; more: medium_batch.h; many: gemm.h, where
  /// these have the scheme and schedules don't say otherwise.
  InputKey key(std::int64_t m) const;
  /// Whether results come in pairs: eight of the first part, eight of the second, and so on.
  bool paired() const { return paired_; }
  std::int64_t n() const { return n_; }
  /// Inputs, without those of a tail.
  std::int64_t k() const { return k_; }
  /// Bytes on the device, without a shared table.
  std::int64_t bytes() const;

  /// y = x W^T + bias, rows ldy apart.
  void run(const LinearInput& x, float* y, std::int64_t ldy, cudaStream_t stream) const;
  /// Whether run() and add() make norms of this kind themselves (LinearInput::rows): of very few
  /// tokens.
  bool makes_norms(std::int64_t m, NormKind kind) const;
  /// Whether there is add(): not of a dense layer.
  bool adds() const { return !few_.matrix; }
  /// y += x W^T + bias.
  void add(const LinearInput& x, float* y, std::int64_t ldy, cudaStream_t stream) const;
  /// Whether run_gated() takes m tokens: many, or a medium batch in float16, with results in pairs
  /// to which nothing is added.
  bool gates(std::int64_t m) const;
  /// activation(gate) * up of the results, [m, n() / 2].
  void run_gated(const LinearInput& x, const GatedOutput& y, cudaStream_t stream) const;

 private:
  void add_units(const UnitRows& rows, UnitPacker& packer);
  void add_tables(const UnitRows& rows, core::ThreadPool& pool);
  void set_bias(std::span<const float> bias);
  void add_tail(const LinearSet& set, std::size_t first, std::size_t last,
                const Schedules& schedules, UnitPacker& packer);
  void add_row_sums();
  bool is_medium(std::int64_t m) const;
  void choose_schedules(const Schedules& schedules);
  const ManyTokens* measured_choice(std::int64_t m) const;
  bool is_few(std::int64_t m) const;
  bool is_many(std::int64_t m) const;
  GemmPlan plan_of(const GemmWeights& weights, GemmInputs inputs, std::int64_t m) const;
  void compute(const LinearInput& x, const GemmOutput& output, cudaStream_t stream) const;
  void run_few(const UnnormedRows& rows, const InputTarget& x, std::int64_t m,
               const GemmOutput& output, cudaStream_t stream) const;
  const MediumBatchSchedule& medium_schedule(std::int64_t m) const;
  void run_medium(const LinearInput& x, const GemmOutput& output, cudaStream_t stream) const;
  void run_many(const LinearInput& x, const GemmOutput& output, cudaStream_t stream) const;
  void add_corrections(const LinearInput& x, float* y, std::int64_t ldy, cudaStream_t stream) const;

  const float* bias() const { return bias_.empty() ? nullptr : bias_.as<float>(); }

  formats::Scheme scheme_;
  InputKey few_;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  bool paired_ = false;
  device::cuda::Buffer units_;
  device::cuda::Buffer tables_;
  device::cuda::Buffer factors_;
  device::cuda::Buffer bias_;
  std::shared_ptr<device::cuda::Buffer> table_;
  UnitsView view_;
  DenseView dense_;
  LinearShape shape_;
  bool has_medium_ = false;    // kernels for some numbers of tokens
  std::int64_t most_few_ = 0;  // tokens of a launch
  SmallBatchSchedule schedule_;
  std::array<MediumBatchSchedule, kMediumColumns.size()> medium_schedules_;
  std::array<std::optional<ManyTokens>, kTokenBuckets.size()> many_;  // measured, or built in
  std::shared_ptr<const DeviceTransform> transform_;
  std::unique_ptr<DeviceLinear> tail_;  // INT8, of the last inputs; all else is without them
  device::cuda::Buffer row_sums_;       // [n, steps]: what zeros of activations are multiplied with
  std::int64_t steps_ = 0;
};

/// How many parts from `first` on can run as one: those of one scheme and with one transform of the
/// input.
std::size_t joint_parts(const LinearSet& set, std::size_t first);

}  // namespace nibble::ops::cuda
