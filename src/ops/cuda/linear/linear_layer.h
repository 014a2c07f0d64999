#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/threads.h"
#include "device/cuda/memory.h"
#include "ops/cuda/layer_chain/layer_chain.h"
#include "ops/cuda/linear/linear_kernel.h"
#include "ops/layers.h"

namespace nibble::ops::cuda {

/// What dense layers need beside their weights.
struct DenseNeeds {
  DeviceKernels device;
  std::shared_ptr<LtProducts> products;
  bool exact = false;  // LinearProblem::exact
};

/// What layers need beside their weights whose rows become float16 for many tokens.
struct WideNeeds {
  DeviceKernels device;
  std::shared_ptr<LtProducts> products;
  std::shared_ptr<WideScratch> scratch;
  core::ThreadPool& pool;  // that packs them
};

/// One or more parts of a set that stand side by side, as a GPU runs them: compressed ones of one
/// scheme in segments of their inputs, block-sparse rows, two of each four weights, trellis
/// codes, or dense ones of one type. Adapters are not in it.
///
/// Which kernel computes m tokens the table says (linear_kernels.h). Behind it comes what products
/// of codes leave out: zeros of activations times sums of the weights' rows, and the columns of
/// outlying activations.
class LinearLayer {
 public:
  /// Packs and uploads parts [first, last) of the set, of one scheme and with one transform of the
  /// input (or none). Schedules are looked up here, once. Throws kUsage for what no kernel
  /// computes, kOutOfMemory; messages name the layer.
  static LinearLayer packed(const LinearSet& set, std::size_t first, std::size_t last,
                            std::shared_ptr<const DeviceTransform> transform,
                            const Schedules& schedules, UnitPacker& packer);
  /// The same of dense parts. With `table` a single one uses what is there.
  static LinearLayer dense(const LinearSet& set, std::size_t first, std::size_t last,
                           std::shared_ptr<device::cuda::Buffer> table, const DenseNeeds& needs);

  /// The same of block-sparse rows.
  static LinearLayer sparse(const LinearSet& set, std::size_t first, std::size_t last,
                            const WideNeeds& needs);

  /// The same of weights of which two of each four are stored.
  static LinearLayer two_of_four(const LinearSet& set, std::size_t first, std::size_t last,
                                 const DeviceKernels& device, core::ThreadPool& pool);

  /// The same of trellis codes, with one transform of the input (or none).
  static LinearLayer trellis(const LinearSet& set, std::size_t first, std::size_t last,
                             std::shared_ptr<const DeviceTransform> transform,
                             const WideNeeds& needs);

  /// How m tokens are wanted.
  InputKey key(std::int64_t m) const;
  /// Whether results come in pairs: eight of the first part, eight of the second, and so on.
  bool paired() const { return layer_.pairs; }
  std::int64_t n() const { return layer_.n; }
  /// Bytes on the device, without a shared table.
  std::int64_t bytes() const;

  /// Why the kernel of m tokens does not do this with its product. Nothing else is asked: x is
  /// there in that kernel's form.
  Refusal refusal(std::int64_t m, const Epilogue& epilogue) const;
  /// Whether run() makes the input of rows of float32 itself (LinearInput::rows), of their norm of
  /// this kind or of what they are: of very few tokens.
  bool reads_rows(std::int64_t m, std::optional<NormKind> norm) const;
  /// The order of its inputs, where it reads them in one and they are not mixed; else null.
  const std::uint16_t* input_order() const;
  /// The layer as a chain has it (layer_chain.h), with what it reads of x; none where x is not one
  /// token, or no chain takes the layer.
  std::optional<ChainedLayer> chained(const LinearInput& x) const;
  /// Whether chained() gives one for one token.
  bool is_chainable() const;
  /// x W^T + bias, to output.y, or to another place; that, and output.adds, only where refusal()
  /// allows it. cuBLASLt (dense-many) writes float16 in natural order alone, with a bias that was
  /// rounded to it, and what is beyond it becomes infinite.
  void run(const LinearInput& x, GemmOutput output, cudaStream_t stream) const;

  /// Whether run_bfloat16() serves m tokens: of bfloat16 weights and no bias, where many tokens
  /// make results large.
  bool writes_bfloat16(std::int64_t m) const;
  /// x W^T, rounded to bfloat16.
  void run_bfloat16(const LinearInput& x, const Bfloat16Output& output, cudaStream_t stream) const;

 private:
  LayerProblem problem(std::int64_t m, const Epilogue& epilogue = {}) const;
  LayerWeights weights() const;
  void add_tail(const LinearSet& set, std::size_t first, std::size_t last,
                const Schedules& schedules, UnitPacker& packer);
  void add_row_sums();
  void set_bias(std::span<const float> bias);
  void set_half_bias(std::span<const float> bias);
  void add_corrections(const LinearInput& x, float* y, std::int64_t ldy, cudaStream_t stream) const;

  LinearProblem layer_;
  LayerPlan plan_;                               // of the first segment
  InputKey key_;                                 // but for its form
  std::vector<UnitSegment> segments_;            // the head, and its INT8 tail
  std::shared_ptr<device::cuda::Buffer> table_;  // of one dense part
  device::cuda::Buffer joined_;                  // of several
  std::optional<SparseRows> sparse_;
  std::optional<SparseTiles> tiles_;
  std::optional<KeptWeights> kept_;
  std::optional<TrellisWeights> trellis_;
  DenseView dense_;
  std::shared_ptr<LtProducts> products_;
  device::cuda::Buffer bias_;
  device::cuda::Buffer half_bias_;  // of float16 weights
  std::shared_ptr<const DeviceTransform> transform_;
  device::cuda::Buffer row_sums_;  // [n, steps]: what zeros of activations are multiplied with
  std::int64_t steps_ = 0;
};

}  // namespace nibble::ops::cuda
