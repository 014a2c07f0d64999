#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/threads.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/cuda_ops.h"

/// Layers on a GPU from float input to result, for tests.
namespace nibble::ops::cuda {

class CudaLayers : public device::GpuTest {
 protected:
  std::vector<float> run(CudaOps& ops, const LinearSet& set, const std::vector<float>& x,
                         std::int64_t m) {
    UnitPacker packer(pool_, kStaging);
    ops.prepare(set, packer);
    CudaOps::Input made = ops.input(upload(ops, x, m), set);
    return download(ops, ops.linear(made, set));
  }
  std::vector<float> run(const LinearSet& set, const std::vector<float>& x, std::int64_t m) {
    CudaOps ops({});
    return run(ops, set, x, m);
  }

  static DeviceMatrix upload(CudaOps& ops, const std::vector<float>& x, std::int64_t m) {
    DeviceMatrix matrix = ops.matrix(m, std::ssize(x) / m);
    device::cuda::check(
        cudaMemcpy(matrix.data(), x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice),
        "cudaMemcpy");
    // The call may return before the last bytes have arrived.
    device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return matrix;
  }

  static std::vector<float> download(CudaOps& ops, const DeviceMatrix& y) {
    ops.synchronize();
    std::vector<float> result(static_cast<std::size_t>(y.rows() * y.columns()));
    device::cuda::check(
        cudaMemcpy(result.data(), y.data(), result.size() * sizeof(float), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
    return result;
  }

  cpu::PackedReference reference(const formats::PackedWeight& weight, const std::vector<float>& x,
                                 std::int64_t m) {
    cpu::InputNeeds needs = cpu::input_needs(weight.scheme, weight.k);
    needs.transform = InputTransform(weight);
    needs.wide = weight.scheme.activation.is_float();
    if (weight.scheme.activation.stored_scale) {
      needs.scale = formats::input_scale_of(weight);
    }
    cpu::QuantizedInput input;
    cpu::quantize_input(x.data(), m, weight.k, weight.k, needs, input, pool_);
    return cpu::packed_linear_reference(weight, input, kRunInputs);
  }

  /// Columns [column, column + n) of y beside a reference; `error`: relative to what groups add.
  static void expect_near(const std::vector<float>& y, std::int64_t ldy, std::int64_t column,
                          const cpu::PackedReference& expected, std::int64_t n, double error,
                          const std::string& what) {
    for (std::size_t i = 0; i < expected.y.size(); ++i) {
      const std::size_t at = i / static_cast<std::size_t>(n) * static_cast<std::size_t>(ldy) +
                             static_cast<std::size_t>(column) + i % static_cast<std::size_t>(n);
      ASSERT_NEAR(y[at], expected.y[i], error * expected.magnitude[i] + 1e-30)
          << what << ": token " << i / static_cast<std::size_t>(n) << ", row "
          << i % static_cast<std::size_t>(n);
    }
  }

  static constexpr std::int64_t kRunInputs = 128;    // no kernel rounds a part of them
  static constexpr std::int64_t kStaging = 1 << 16;  // less than a layer here and there
  core::ThreadPool pool_{1};
};

/// sums [m, n] += factor x W^T of a dense weight.
inline void add_products(const formats::PackedWeight& weight, const std::vector<float>& x,
                         std::int64_t m, double factor, std::vector<double>& sums) {
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    formats::decode_row(weight, n, row);
    for (std::int64_t i = 0; i < m; ++i) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < weight.k; ++k) {
        sum += static_cast<double>(row[static_cast<std::size_t>(k)]) *
               x[static_cast<std::size_t>(i * weight.k + k)];
      }
      sums[static_cast<std::size_t>(i * weight.n + n)] += factor * sum;
    }
  }
}

inline LinearSet single(const formats::PackedWeight& weight) {
  LinearSet set;
  set.id = 0;
  set.parts.push_back({"layer", weight, {}});
  return set;
}

}  // namespace nibble::ops::cuda
