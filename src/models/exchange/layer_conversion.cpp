#include "models/exchange/layer_conversion.h"

#include <utility>

#include "core/error.h"
#include "formats/format.h"
#include "models/exchange/plain_weights.h"

namespace nibble::models {
namespace {

using formats::PackedWeight;
using formats::Scheme;

ConvertedLayer report_of(const ops::Linear& layer, const Scheme& scheme) {
  return {.name = layer.name,
          .from = formats::to_string(layer.weight.scheme),
          .to = formats::to_string(scheme),
          .weights = layer.weight.n * layer.weight.k};
}

// Errors of rounding name the layer.
PackedWeight rounded(const ops::Linear& layer, std::span<const float> weights, const Scheme& scheme,
                     const Rounder& round, core::ThreadPool& pool) {
  const std::int64_t n = layer.weight.n;
  const std::int64_t k = layer.weight.k;
  try {
    return round ? round(weights, n, k, scheme, pool)
                 : formats::round_to_nearest(weights, n, k, scheme, pool);
  } catch (const core::Error& error) {
    core::fail(error.kind(), "{}: {}", core::printable(layer.name), error.what());
  }
}

}  // namespace

GridLayer to_grid(const ops::Linear& layer, const Scheme& scheme, const Rounder& round,
                  core::ThreadPool& pool) {
  GridLayer result{{}, report_of(layer, scheme)};
  if (auto grid = formats::exchange::grid_of(layer.weight)) {
    if (auto fits = formats::exchange::fitted(std::move(*grid), scheme)) {
      result.grid = std::move(*fits);
      result.report.exact = true;
      return result;
    }
  }
  Scheme plain = scheme;
  plain.inputs = {};
  plain.activation = {};
  const std::vector<float> weights = plain_weights(layer.weight, pool);
  const PackedWeight packed = rounded(layer, weights, plain, round, pool);
  add_errors(result.report, weights, plain_weights(packed, pool));
  result.grid =
      formats::exchange::fitted(formats::exchange::grid_of(packed).value(), scheme).value();
  return result;
}

DenseLayer to_dense(const ops::Linear& layer, core::DType type, core::ThreadPool& pool) {
  Scheme scheme;
  scheme.code.dense = type;
  DenseLayer result{{}, report_of(layer, scheme)};
  const std::vector<float> weights = plain_weights(layer.weight, pool);
  result.tensor = rounded(layer, weights, scheme, {}, pool).dense;
  add_errors(result.report, weights, core::to_float32(result.tensor));
  result.report.exact = result.report.squared_error == 0;
  result.report.stored_bytes = result.tensor.bytes();
  return result;
}

}  // namespace nibble::models
