#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "core/threads.h"
#include "ops/cpu/attention/kv_cache.h"
#include "ops/cpu/linear/linear_kernel.h"
#include "ops/cpu/matrix.h"
#include "ops/cpu_options.h"
#include "ops/layers.h"
#include "ops/ops.h"
#include "ops/stored_rows.h"

namespace nibble::ops::cpu {

/// The operators of ops.h on a CPU. Float operators are exact within float32 rounding; packed
/// linear layers quantize their input once and share it. One caller at a time.
class CpuOps {
 public:
  using Matrix = cpu::Matrix;
  using Cache = KvCache;
  using Input = LinearInput;

  /// Sees the float input [m, k] of every linear call, for calibration: inputs made while one is
  /// set have float values.
  using Observer = std::function<void(const LinearSet&, const Matrix&)>;

  explicit CpuOps(const CpuOptions& options);

  core::ThreadPool& pool() { return pool_; }
  void set_observer(Observer observer) { observer_ = std::move(observer); }
  /// Whether operators make inputs in float too, where layers read integers alone: for callers that
  /// read LinearInput::values().
  void keep_values(bool keep) { keeps_values_ = keep; }

  /// Gives the layout of a compressed layer.
  using Layout = std::function<PackedLinear(const Linear&)>;

  /// Chooses the kernel of each layer of a set, and makes the layout that it reads, or takes it
  /// from `layout`. release() frees it. Without
  /// that, linear() takes sets whose kernels read weights as they are stored: dense ones, and in
  /// float compressed ones, whose activations stay in float then.
  void prepare(const LinearSet& set, const Layout& layout = {});
  void release(const LinearSet& set);
  /// Whether a part of a set is read where it is stored, for lack of a layout or a copy.
  bool reads_stored(const LinearSet& set, std::size_t part) const;
  /// Bytes held by prepared layouts.
  std::int64_t prepared_bytes() const;
  /// Stored bytes of the parts of a set that run without a prepared layout, and of adapters.
  std::int64_t unprepared_bytes(const LinearSet& set) const;
  /// The most bytes of activations that were held at a time.
  std::int64_t peak_activation_bytes() const { return buffers_->peak_bytes(); }

  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids);
  Matrix embed(const StoredRows& table, std::span<const std::int32_t> ids);
  void add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset);
  Input norm(const Matrix& x, const Norm& norm, const LinearSet& set);
  Input add_norm(Matrix& x, const Matrix& delta, const Norm& norm, const LinearSet& set);
  Input post_norm(Matrix& x, const Matrix& delta, const Norm& norm, const LinearSet& set);
  Matrix norm_matrix(const Matrix& x, const Norm& norm);
  void add(Matrix& x, const Matrix& delta);
  Matrix linear(Input& input, const LinearSet& set);
  /// Nothing is fused.
  std::optional<Matrix> linear(Input& input, const LinearSet& set, const Residual<Matrix>&) {
    return linear(input, set);
  }
  Input linear(Input& input, const LinearSet& set, const ActivateInto& into) {
    return into.gated ? gated_activation(linear(input, set), into.activation, into.next)
                      : mlp_activation(linear(input, set), into.activation, into.next);
  }
  Input attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                  const Batch<KvCache>& batch, const LinearSet& set);
  Input mlp_activation(const Matrix& x, MlpActivation activation, const LinearSet& set);
  void activate(Matrix& x, MlpActivation activation);
  void scale(Matrix& x, float factor);
  Matrix widened(Matrix x) { return x; }
  void remember(const Matrix& kv, const AttentionSpec& spec, std::int64_t layer,
                const Batch<KvCache>& batch);
  Input attend(const Matrix& q, const AttentionSpec& spec, std::int64_t layer,
               const Batch<KvCache>& batch, const LinearSet& set);
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
  using Prepared = std::vector<PreparedLayer>;  // one for each part of a set

  /// Makes a row of an input: where it stands, which may be `to`.
  using MakeRow = core::FunctionRef<const float*(std::int64_t row, float* to)>;

  const LinearKernel& kernel_of(const Linear& layer, bool prepared) const;
  const InputNeeds* codes_for(const LinearSet& set) const;
  Input input_of_rows(std::int64_t rows, std::int64_t columns, const LinearSet& set, MakeRow make);
  const Prepared* prepared(const LinearSet& set) const;
  void add_low_rank(const Input& input, const LinearSet& set, Matrix& y);

  core::ThreadPool pool_;
  ActivationPrecision activations_;
  std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();
  LinearWorkspace workspace_{pool_, buffers_, {}};
  std::vector<Prepared> prepared_;  // by set id
  Observer observer_;
  bool keeps_values_ = false;
};

}  // namespace nibble::ops::cpu
