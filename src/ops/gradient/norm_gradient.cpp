#include "ops/gradient/norm_gradient.h"

#include <cmath>
#include <cstddef>

namespace nibble::ops::gradient {

// y_i = w_i u_i with u = (x - mean) / deviation (RMSNorm: mean 0), so
// dx = (v - mean(v) - u mean(v u)) / deviation with v = w dy (RMSNorm: without mean(v)).
void add_norm_gradient(const Norm& norm, const float* x, const float* dy, float* dx) {
  const std::size_t n = norm.weight.size();
  const auto count = static_cast<double>(n);
  const bool centred = norm.kind == NormKind::kLayer;
  double mean = 0;
  for (std::size_t i = 0; centred && i < n; ++i) {
    mean += x[i] / count;
  }
  double square = 0;
  for (std::size_t i = 0; i < n; ++i) {
    square += (x[i] - mean) * (x[i] - mean) / count;
  }
  const double inverse = 1.0 / std::sqrt(square + static_cast<double>(norm.eps));
  double mean_v = 0;
  double mean_vu = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(norm.weight[i]) * dy[i];
    mean_v += v / count;
    mean_vu += v * (x[i] - mean) * inverse / count;
  }
  if (!centred) {
    mean_v = 0;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(norm.weight[i]) * dy[i];
    const double u = (x[i] - mean) * inverse;
    dx[i] += static_cast<float>((v - mean_v - u * mean_vu) * inverse);
  }
}

}  // namespace nibble::ops::gradient
