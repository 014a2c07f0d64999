#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>

#include "device/cuda/memory.h"
#include "tune/adamw.h"
#include "tune/parameter.h"

namespace nibble::tune::cuda {

/// Parameters on the GPU, which are trained there by AdamW (adamw.h), beside those of the host that
/// they start from. All work goes to one stream.
class DeviceAdamW {
 public:
  /// `parameters` must outlive this and keep their sizes.
  DeviceAdamW(const Parameters& parameters, const AdamWOptions& options, cudaStream_t stream);

  /// Memory of the GPU, as many numbers as the parameter has; null for null.
  float* values(const Parameter* parameter) const;
  float* gradient(const Parameter* parameter) const;

  /// Moves all parameters by their gradients, clipped together, and empties these. Returns the norm
  /// that the gradients had. Throws as require_finite(). Waits for the gradients.
  double step(double loss, double learning_rate);
  std::int64_t steps() const { return steps_; }

  /// Keeps the values as they are; gives the host's parameters what was kept.
  void keep();
  void return_kept();

  /// Gives the host's parameters the values, and an optimizer of theirs the rest; or takes all of
  /// them.
  void give(AdamW& host) const;
  void take(const AdamW& host);

  /// Bytes for so many parameters: values, gradients and moments, and values that are kept.
  static constexpr std::int64_t kBytesPerValue = 20;

 private:
  struct Numbers {
    device::cuda::Buffer values;
    device::cuda::Buffer gradient;
    device::cuda::Buffer first;
    device::cuda::Buffer second;
    device::cuda::Buffer kept;
  };
  device::cuda::Buffer zeros(std::int64_t bytes) const;
  // Of each parameter's gradient.
  std::vector<double> sums_of_squares();

  const Parameters& parameters_;
  AdamWOptions options_;
  cudaStream_t stream_;
  std::int64_t steps_ = 0;
  std::vector<Numbers> numbers_;
  std::map<const Parameter*, std::size_t> places_;
  device::cuda::Buffer sums_;  // [parameters, kPartialSums]
};

/// The sum of partial sums that a kernel wrote (weight_kernels.h); waits for them.
double sum_of(const double* sums, std::int64_t count, cudaStream_t stream);

}  // namespace nibble::tune::cuda
