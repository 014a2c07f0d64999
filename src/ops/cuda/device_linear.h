#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "core/threads.h"
#include "device/cuda/memory.h"
#include "formats/scheme.h"
#include "ops/cuda/dense/dense.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/cuda/small_batch/small_batch.h"
#include "ops/layers.h"

namespace nibble::ops::cuda {

/// In which form a layer reads its input: a float matrix, or what input_target.h makes of one.
struct InputKey {
  bool matrix = false;
  InputForm form = InputForm::kInt8Lanes;
  int bits = 16;             // of integers; 16: two digits, a scale for each 128 inputs
  std::int64_t group = 128;  // inputs that share a scale; 0: all of a token
  float clip = 1.0f;
  friend bool operator==(const InputKey&, const InputKey&) = default;
};

/// The input of a layer in the form that it asked for, on the device.
struct LinearInput {
  std::int64_t m = 0;
  const float* matrix = nullptr;
  InputTarget target;
};

/// One or more parts of a set that stand side by side, as a GPU runs them: compressed ones of one
/// scheme in units, or one dense one.
class DeviceLinear {
 public:
  /// Packs and uploads parts [first, last) of the set, of one scheme; with `table`, a dense part
  /// uses what is there. Throws kUsage for what no kernel computes, kOutOfMemory.
  static DeviceLinear packed(const LinearSet& set, std::size_t first, std::size_t last,
                             int multiprocessors, core::ThreadPool& pool);
  static DeviceLinear dense(const Linear& part, std::shared_ptr<device::cuda::Buffer> table);

  /// How m tokens are wanted. Few of them: small_batch.h; more: gemm.h, where it has the scheme.
  InputKey key(std::int64_t m) const;
  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  /// Bytes on the device, without a shared table.
  std::int64_t bytes() const;

  /// y = x W^T + bias, rows ldy apart.
  void run(const LinearInput& x, float* y, std::int64_t ldy, cudaStream_t stream) const;

 private:
  void set_bias(std::span<const float> bias);
  bool has_gemm() const;
  void run_few(const LinearInput& x, float* y, std::int64_t ldy, cudaStream_t stream) const;
  void run_many(const LinearInput& x, float* y, std::int64_t ldy, cudaStream_t stream) const;

  formats::Scheme scheme_;
  InputKey few_;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  device::cuda::Buffer units_;
  device::cuda::Buffer tables_;
  device::cuda::Buffer factors_;
  device::cuda::Buffer bias_;
  std::shared_ptr<device::cuda::Buffer> table_;
  UnitsView view_;
  DenseView dense_;
  SmallBatchSchedule schedule_;
};

/// How many parts from `first` on can run as one: of one scheme, all but the last of a multiple of
/// 64 rows.
std::size_t joint_parts(const LinearSet& set, std::size_t first);

}  // namespace nibble::ops::cuda
