#include "models/exchange/conversion.h"

#include <algorithm>
#include <cmath>

namespace nibble::models {
namespace {

double relative(double squared_error, double squared_weights) {
  return squared_weights > 0 ? std::sqrt(squared_error / squared_weights) : 0.0;
}

}  // namespace

double ConvertedLayer::relative_error() const {
  return relative(squared_error, squared_weights);
}

double Conversion::relative_error() const {
  double error = 0;
  double weights = 0;
  for (const ConvertedLayer& layer : layers) {
    error += layer.squared_error;
    weights += layer.squared_weights;
  }
  return relative(error, weights);
}

double Conversion::bits_per_weight() const {
  double bits = 0;
  double weights = 0;
  for (const ConvertedLayer& layer : layers) {
    bits += 8 * static_cast<double>(layer.stored_bytes);
    weights += static_cast<double>(layer.weights);
  }
  return weights > 0 ? bits / weights : 0.0;
}

const ConvertedLayer* Conversion::worst() const {
  const auto at = std::max_element(layers.begin(), layers.end(), [](const auto& a, const auto& b) {
    return a.relative_error() < b.relative_error();
  });
  return at == layers.end() ? nullptr : &*at;
}

void add_errors(ConvertedLayer& layer, std::span<const float> before,
                std::span<const float> after) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double weight = before[i];
    const double change = static_cast<double>(after[i]) - weight;
    layer.squared_error += change * change;
    layer.squared_weights += weight * weight;
  }
}

}  // namespace nibble::models
