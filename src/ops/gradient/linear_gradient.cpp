#include "ops/gradient/linear_gradient.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/dense/blas.h"

namespace nibble::ops::gradient {
namespace {

constexpr std::int64_t kPanel = 256;       // rows of W that are decoded at a time
constexpr std::int64_t kRowsPerTask = 64;  // rows of dx

}  // namespace

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
