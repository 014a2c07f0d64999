#include "ops/gradient/parameter_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/error.h"
#include "ops/cpu/dense/blas.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::gradient {
namespace {

constexpr std::int64_t kPanel = 128;   // rows of dW of one task
constexpr std::int64_t kColumns = 64;  // columns whose sums are one task

void require_size(std::int64_t wanted, std::span<const float> found) {
  core::require(wanted == std::ssize(found), core::ErrorKind::kFailed,
                "{} numbers for the gradient of {}", found.size(), wanted);
}

// sums [columns] += the column sums of dy, `ld` floats from row to row.
void add_column_sums(const float* dy, std::int64_t m, std::int64_t ld, std::span<float> sums,
                     core::ThreadPool& pool) {
  pool.parallel_for(std::ssize(sums), kColumns, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> part(static_cast<std::size_t>(end - begin));
    for (std::int64_t i = 0; i < m; ++i) {
      const float* row = dy + i * ld + begin;
      for (std::size_t j = 0; j < part.size(); ++j) {
        part[j] += row[j];
      }
    }
    for (std::size_t j = 0; j < part.size(); ++j) {
      sums[static_cast<std::size_t>(begin) + j] += static_cast<float>(part[j]);
    }
  });
}

// What a row is normalized by: (x - mean) inverse.
struct RowMoments {
  double mean = 0;
  double inverse = 0;
};

RowMoments moments_of(const Norm& norm, const float* x, std::int64_t n) {
  const auto count = static_cast<double>(n);
  RowMoments moments;
  if (norm.kind == NormKind::kLayer) {
    for (std::int64_t i = 0; i < n; ++i) {
      moments.mean += x[i] / count;
    }
  }
  double square = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    square += (x[i] - moments.mean) * (x[i] - moments.mean) / count;
  }
  moments.inverse = 1.0 / std::sqrt(square + static_cast<double>(norm.eps));
  return moments;
}

}  // namespace

void ParameterGradients::add(const formats::PackedWeight& weight, std::span<float> to) {
  require_size(weight.n * weight.k, to);
  gradients_[&weight] = to;
}

void ParameterGradients::add(const std::vector<float>& vector, std::span<float> to) {
  require_size(std::ssize(vector), to);
  gradients_[&vector] = to;
}

void ParameterGradients::add(const core::Tensor& table, std::span<float> to) {
  require_size(table.elements(), to);
  gradients_[&table] = to;
}

std::span<float> ParameterGradients::find(const void* object) const {
  const auto found = gradients_.find(object);
  return found == gradients_.end() ? std::span<float>() : found->second;
}

void add_linear_parameter_gradients(const LinearSet& set, const cpu::Matrix& x,
                                    const cpu::Matrix& dy, const ParameterGradients& gradients,
                                    core::ThreadPool& pool) {
  const std::int64_t k = set.k();
  std::int64_t column = 0;
  for (const Linear& part : set.parts) {
    const float* from = dy.data() + column;
    if (const auto to = gradients.of(part.weight); !to.empty()) {
      const std::int64_t panels = (part.weight.n + kPanel - 1) / kPanel;
      pool.parallel_for(panels, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t panel = begin; panel < end; ++panel) {
          const std::int64_t first = panel * kPanel;
          const std::int64_t rows = std::min(kPanel, part.weight.n - first);
          cpu::blas().sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(rows),
                            static_cast<int>(k), static_cast<int>(x.rows()), 1.0f, from + first,
                            static_cast<int>(dy.columns()), x.data(), static_cast<int>(k), 1.0f,
                            to.data() + first * k, static_cast<int>(k));
        }
      });
    }
    if (const auto to = gradients.of(part.bias); !to.empty()) {
      add_column_sums(from, dy.rows(), dy.columns(), to, pool);
    }
    column += part.weight.n;
  }
}

void add_norm_parameter_gradients(const Norm& norm, const cpu::Matrix& x, const cpu::Matrix& dy,
                                  const ParameterGradients& gradients, core::ThreadPool& pool) {
  if (const auto to = gradients.of(norm.weight); !to.empty()) {
    std::vector<RowMoments> moments(static_cast<std::size_t>(x.rows()));
    pool.parallel_for(x.rows(), 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        moments[static_cast<std::size_t>(i)] = moments_of(norm, x.row(i), x.columns());
      }
    });
    pool.parallel_for(x.columns(), kColumns, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) {
        double sum = 0;
        for (std::int64_t i = 0; i < x.rows(); ++i) {
          const RowMoments& row = moments[static_cast<std::size_t>(i)];
          sum += dy.row(i)[j] * (x.row(i)[j] - row.mean) * row.inverse;
        }
        to[static_cast<std::size_t>(j)] += static_cast<float>(sum);
      }
    });
  }
  if (const auto to = gradients.of(norm.bias); !to.empty()) {
    add_column_sums(dy.data(), dy.rows(), dy.columns(), to, pool);
  }
}

void add_table_gradient(const core::Tensor& table, std::span<const std::int32_t> ids,
                        std::int64_t offset, const cpu::Matrix& dy,
                        const ParameterGradients& gradients) {
  const auto to = gradients.of(table);
  if (to.empty()) {
    return;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    cpu::vector_kernels().add(to.data() + (ids[i] + offset) * dy.columns(),
                              dy.row(static_cast<std::int64_t>(i)), dy.columns());
  }
}

}  // namespace nibble::ops::gradient
