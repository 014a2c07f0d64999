#include "ops/cuda/layer_chain/chain_reference.h"

#include <cmath>

#include "ops/cuda/small_batch/reference.h"

namespace nibble::ops::cuda {
namespace {

double activated(MlpActivation activation, double x) {
  switch (activation) {
    case MlpActivation::kSilu:
      return x / (1.0 + std::exp(-x));
    case MlpActivation::kGelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case MlpActivation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case MlpActivation::kRelu:
      return x < 0.0 ? 0.0 : x;
    case MlpActivation::kTanh:
      return std::tanh(x);
  }
  return x;
}

std::vector<double> normalized(const ReferenceLayer& layer, std::span<const double> x) {
  std::vector<double> y(x.begin(), x.end());
  if (layer.norm.empty()) {
    return y;
  }
  double squares = 0.0;
  for (const double value : x) {
    squares += value * value;
  }
  const double factor =
      1.0 / std::sqrt(squares / static_cast<double>(x.size()) + static_cast<double>(layer.eps));
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] *= factor * static_cast<double>(layer.norm[i]);
  }
  return y;
}

}  // namespace

std::vector<double> chained_reference(const ReferenceLayer& layer, std::span<const double> x,
                                      std::vector<double>& magnitude) {
  const formats::PackedWeight& weight = *layer.weight;
  const std::vector<double> inputs = normalized(layer, x);
  std::vector<double> rows;
  magnitude.clear();
  for (std::int64_t n = 0; n < weight.n; ++n) {
    const std::vector<double> decoded = multiplied_row(weight, n);
    double sum =
        layer.bias.empty() ? 0.0 : static_cast<double>(layer.bias[static_cast<std::size_t>(n)]);
    double all = std::fabs(sum);
    for (std::size_t k = 0; k < decoded.size(); ++k) {
      const double product = decoded[k] * inputs[k];
      sum += product;
      all += std::fabs(product);
    }
    rows.push_back(sum);
    magnitude.push_back(all);
  }
  std::vector<double> y = rows;
  if (layer.gate) {
    constexpr std::size_t kEight = 8;
    y.resize(rows.size() / 2);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t row = i / kEight * 2 * kEight + i % kEight;
      y[i] = activated(*layer.gate, rows[row]) * rows[row + kEight];
    }
  }
  for (std::size_t i = 0; i < layer.added_to.size(); ++i) {
    y[i] += layer.added_to[i];
  }
  return y;
}

}  // namespace nibble::ops::cuda
