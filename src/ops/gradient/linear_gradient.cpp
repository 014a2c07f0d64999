#include "ops/gradient/linear_gradient.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::ops::gradient {
namespace {

constexpr std::int64_t kPanel = 256;       // rows of W that are decoded at a time
constexpr std::int64_t kRowsPerTask = 64;  // rows of dx

// What stands between the input of a layer and its decoded weight; empty: nothing.
std::string_view obstacle(const Linear& layer) {
  if (layer.low_rank) {
    return "an adapter";
  }
  if (layer.weight.scheme.inputs.hadamard != 0) {
    return "an online Hadamard";
  }
  if (layer.weight.scheme.inputs.ordered) {
    return "inputs in an order of their own";
  }
  return layer.weight.scheme.inputs.tail != 0 ? "a tail in INT8" : "";
}

}  // namespace

void require_plain_weights(const LinearSet& set) {
  for (const Linear& part : set.parts) {
    const std::string_view found = obstacle(part);
    core::require(found.empty(), core::ErrorKind::kFailed,
                  "gradients do not pass through layer {}, which has {}; take the model as it was "
                  "before",
                  part.name, found);
  }
}

void add_linear_gradient(const LinearSet& set, const cpu::Matrix& dy, cpu::Matrix& dx,
                         core::ThreadPool& pool) {
  require_plain_weights(set);
  const std::int64_t k = set.k();
  std::vector<float> panel(static_cast<std::size_t>(kPanel * k));
  std::int64_t column = 0;
  for (const Linear& part : set.parts) {
    for (std::int64_t first = 0; first < part.weight.n; first += kPanel) {
      const std::int64_t rows = std::min(kPanel, part.weight.n - first);
      pool.parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          formats::decode_row(part.weight, first + row,
                              {panel.data() + row * k, static_cast<std::size_t>(k)});
        }
      });
      const float* from = dy.data() + column + first;
      pool.parallel_for(dy.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
        cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(end - begin),
                          static_cast<int>(k), static_cast<int>(rows), 1.0f,
                          from + begin * dy.columns(), static_cast<int>(dy.columns()), panel.data(),
                          static_cast<int>(k), 1.0f, dx.row(begin), static_cast<int>(k));
      });
    }
    column += part.weight.n;
  }
}

}  // namespace nibble::ops::gradient
