#pragma once

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "core/tensor.h"
#include "device/cuda/stream.h"
#include "ops/cuda/dense/dense.h"
#include "ops/cuda/dense/dense_reference.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"

namespace nibble::ops::cuda {

/// A dense weight and inputs of random numbers, on the device in the forms that kernels read.
class DenseTrial {
 public:
  DenseTrial(core::DType type, std::int64_t n, std::int64_t k, std::int64_t m) : type_(type) {
    problem_.n = n;
    problem_.k = k;
    problem_.m = m;
    const core::Tensor weight = core::from_float32(normal_values(n * k, 1), {n, k}, type);
    problem_.weight = core::to_float32(weight);
    const std::vector<float> x = normal_values(m * k, 2);
    problem_.x = rounded_to(type, x);
    problem_.bias = normal_values(n, 3);
    problem_.before = normal_values(m * n, 4);
    weight_ = on_device(std::vector<std::byte>(weight.raw(), weight.raw() + weight.bytes()));
    matrix_ = on_device(x);
    bias_ = on_device(problem_.bias);
    values_ = poisoned<core::Fp16>(m * padded_columns(k));
    if (type != core::DType::kF32) {
      InputTarget target;
      target.form = type == core::DType::kBF16 ? InputForm::kBFloat16 : InputForm::kFloat16;
      target.values = values_.as<core::Fp16>();
      input(matrix_.as<float>(), target, m, k, stream_.get());
    }
    stream_.synchronize();
  }

  DenseView weight() const { return {weight_.data(), type_, problem_.n, problem_.k}; }
  const void* values() const { return values_.data(); }
  const float* matrix() const { return matrix_.as<float>(); }
  const float* bias() const { return bias_.as<float>(); }
  std::int64_t ldy() const { return problem_.n + 3; }
  cudaStream_t stream() const { return stream_.get(); }

  /// y [m, ldy] to be written: NaN, with `adds` but between the rows.
  device::cuda::Buffer target(std::int64_t m, bool adds) const {
    const auto ld = static_cast<std::size_t>(ldy());
    const auto n = static_cast<std::size_t>(problem_.n);
    std::vector<float> y(static_cast<std::size_t>(m) * ld, NAN);
    for (std::size_t i = 0; adds && i < static_cast<std::size_t>(m); ++i) {
      std::copy_n(problem_.before.begin() + static_cast<std::ptrdiff_t>(i * n), n,
                  y.begin() + static_cast<std::ptrdiff_t>(i * ld));
    }
    return on_device(y);
  }

  /// What a kernel left for the first m tokens, beside the reference.
  void expect(const device::cuda::Buffer& target, std::int64_t m, bool has_bias, bool adds,
              const std::string& what) {
    stream_.synchronize();
    const std::vector<float> y = target.values<float>();
    const DenseReference& expected = reference(has_bias, adds);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t n = 0; n < ldy(); ++n) {
        const float value = y[static_cast<std::size_t>(i * ldy() + n)];
        if (n >= problem_.n) {
          ASSERT_TRUE(std::isnan(value)) << what << ": written beyond row " << i;
          continue;
        }
        const auto at = static_cast<std::size_t>(i * problem_.n + n);
        ASSERT_NEAR(value, expected.y[at], expected.bounds[at])
            << what << ": token " << i << ", row " << n;
      }
    }
  }

 private:
  const DenseReference& reference(bool has_bias, bool adds) {
    DenseReference& known = references_[has_bias ? 1 : 0][adds ? 1 : 0];
    if (known.y.empty()) {
      DenseReferenceProblem problem = problem_;
      problem.bias = has_bias ? problem.bias : std::vector<float>();
      problem.before = adds ? problem.before : std::vector<float>();
      known = reference_dense(problem);
    }
    return known;
  }

  core::DType type_;
  DenseReferenceProblem problem_;
  DenseReference references_[2][2];
  device::cuda::Buffer weight_;
  device::cuda::Buffer matrix_;
  device::cuda::Buffer bias_;
  device::cuda::Buffer values_;
  device::cuda::Stream stream_;
};

}  // namespace nibble::ops::cuda
