#pragma once

#include "formats/exchange/integer_grid.h"
#include "models/exchange/conversion.h"
#include "ops/layers.h"

namespace nibble::models {

/// A layer on the grid of another tool, and what that changed.
struct GridLayer {
  formats::exchange::IntegerGrid grid;
  ConvertedLayer report;
};

/// The layer in `scheme` (integers with float16 scales): moved where the scheme holds its grid,
/// else decoded and rounded.
GridLayer to_grid(const ops::Linear& layer, const formats::Scheme& scheme, const Rounder& round,
                  core::ThreadPool& pool);

/// The layer decoded and rounded to `scheme`, which `round` must take.
struct RoundedLayer {
  formats::PackedWeight weight;
  ConvertedLayer report;
};
RoundedLayer to_scheme(const ops::Linear& layer, const formats::Scheme& scheme,
                       const Rounder& round, core::ThreadPool& pool);

/// A dense tensor of the layer's weights [n, k]. Throws kInvalidModel naming the layer where
/// float16 cannot hold one.
struct DenseLayer {
  core::Tensor tensor;
  ConvertedLayer report;
};
DenseLayer to_dense(const ops::Linear& layer, core::DType type, core::ThreadPool& pool);

}  // namespace nibble::models
