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

// The most that zero points in the places of minima may change (of weights); rounding anew to 4
// bits changes about 0.1.
constexpr double kMostOfZeroPoints = 0.02;

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
  Scheme with_zeros = scheme;  // whose products with scales may stand for minima
  with_zeros.zero = formats::has_minima(scheme) ? formats::Zero::kInteger : scheme.zero;
  Scheme plain = scheme;
  plain.inputs = {};
  plain.activation = {};
  Scheme plain_zeros = plain;
  plain_zeros.zero = with_zeros.zero;
  std::optional<formats::exchange::IntegerGrid> grid = formats::exchange::grid_of(layer.weight);
  const bool minima = grid && !grid->minima.empty();
  if (grid) {
    if (auto fits = formats::exchange::fitted(*grid, minima ? scheme : with_zeros)) {
      result.grid = std::move(*fits);
      result.report.exact = true;
      return result;
    }
  }
  const std::vector<float> weights = plain_weights(layer.weight, pool);
  if (minima) {
    auto nearest = formats::exchange::with_zero_points(*grid, layer.name);
    auto fits = formats::exchange::fitted(std::move(nearest.grid), plain_zeros);
    if (fits && nearest.error <= kMostOfZeroPoints) {
      result.grid = std::move(*fits);
      add_errors(result.report, weights,
                 plain_weights(formats::exchange::pack_grid(result.grid, layer.name).weight, pool));
      return result;
    }
  }
  const PackedWeight packed = rounded(layer, weights, plain, round, pool);
  add_errors(result.report, weights, plain_weights(packed, pool));
  result.grid =
      formats::exchange::fitted(formats::exchange::grid_of(packed).value(), scheme).value();
  return result;
}

RoundedLayer to_scheme(const ops::Linear& layer, const Scheme& scheme, const Rounder& round,
                       core::ThreadPool& pool) {
  const std::vector<float> weights = plain_weights(layer.weight, pool);
  RoundedLayer result{rounded(layer, weights, scheme, round, pool), report_of(layer, scheme)};
  add_errors(result.report, weights, plain_weights(result.weight, pool));
  result.report.exact = result.report.squared_error == 0;
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
