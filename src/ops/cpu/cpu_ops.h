#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "core/threads.h"
#include "ops/cpu/attention/kv_cache.h"
#include "ops/cpu/matrix.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu_options.h"
#include "ops/layers.h"
#include "ops/ops.h"

namespace nibble::ops::cpu {

/// The operators of ops.h on a CPU. Float operators are exact within float32 rounding; packed
/// linear layers quantize their input once and share it. One caller at a time.
class CpuOps {
 public:
  using Matrix = cpu::Matrix;
  using Cache = KvCache;

  /// An activation that linear layers read, with the quantized forms that were asked for so far.
  class Input {
   public:
    explicit Input(Matrix values) : values_(std::move(values)) {}
    const Matrix& values() const { return values_; }

   private:
    friend class CpuOps;
    Matrix values_;
    std::vector<std::shared_ptr<QuantizedInput>> quantized_;
    std::vector<std::pair<InputTransform, Matrix>> transformed_;  // in float
  };

  /// Sees the float input [m, k] of every linear call, for calibration.
  using Observer = std::function<void(const LinearSet&, const Matrix&)>;

  explicit CpuOps(const CpuOptions& options);

  core::ThreadPool& pool() { return pool_; }
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  /// Gives the layout of a compressed layer.
  using Layout = std::function<PackedLinear(const Linear&)>;

  /// Makes the CPU's own layout of the packed weights of a set, or takes it from `layout`; linear()
  /// needs it. release() frees it.
  void prepare(const LinearSet& set, const Layout& layout = {});
  void release(const LinearSet& set);
  /// Bytes held by prepared layouts.
  std::int64_t prepared_bytes() const;
  /// Stored bytes of the parts of a set that run without a prepared layout, and of adapters.
  std::int64_t unprepared_bytes(const LinearSet& set) const;
  /// The most bytes of activations that were held at a time.
  std::int64_t peak_activation_bytes() const { return buffers_->peak_bytes(); }

  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids);
  void add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset);
  Input norm(const Matrix& x, const Norm& norm, const LinearSet& set);
  Input add_norm(Matrix& x, const Matrix& delta, const Norm& norm, const LinearSet& set);
  Matrix norm_matrix(const Matrix& x, const Norm& norm);
  void add(Matrix& x, const Matrix& delta);
  Matrix linear(Input& input, const LinearSet& set);
  Input attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                  const Batch<KvCache>& batch, const LinearSet& set);
  Input mlp_activation(const Matrix& x, MlpActivation activation, const LinearSet& set);
  Input gated_activation(const Matrix& gate_up, MlpActivation activation, const LinearSet& set);
  Input input(const Matrix& x, const LinearSet& set);
  std::vector<ExpertRows> route(const Matrix& logits, const RoutingSpec& spec);
  Matrix gather(const Matrix& x, std::span<const std::int32_t> rows);
  void scatter_add(Matrix& sum, const Matrix& x, const ExpertRows& expert);
  Matrix zeros(std::int64_t rows, std::int64_t columns);
  Matrix matrix(std::int64_t rows, std::int64_t columns) { return {buffers_, rows, columns}; }
  Matrix copy(const Matrix& x) { return copy(x, 0, x.rows()); }
  /// Rows [first, first + rows) of x.
  Matrix copy(const Matrix& x, std::int64_t first, std::int64_t rows);

 private:
  using Packed = std::vector<std::unique_ptr<PackedLinear>>;  // null where a part runs dense

  const Matrix& transformed(Input& input, const formats::PackedWeight& weight);
  InputNeeds needs_of(const Linear& part, const PackedLinear& layer) const;
  const QuantizedInput& quantized(Input& input, const InputNeeds& needs);
  void packed_run(Input& input, const LinearSet& set, const Packed& packed, std::size_t first,
                  std::size_t last, float* y, std::int64_t ldy);
  void add_low_rank(const Matrix& x, const LinearSet& set, Matrix& y);

  core::ThreadPool pool_;
  ActivationPrecision activations_;
  std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();
  std::vector<Packed> prepared_;  // by set id
  std::vector<std::shared_ptr<QuantizedInput>> spare_;
  Observer observer_;
};

}  // namespace nibble::ops::cpu
