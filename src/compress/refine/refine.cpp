#include "compress/refine/refine.h"

#include <algorithm>

#include "compress/refine/refined_rows.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

using formats::Scheme;

constexpr std::int64_t kRows = 64;  // output rows of one task; rows do not influence one another

// y[rows, columns] += x[rows, inner] a[inner, columns], leading dimensions as given.
void multiply_add(std::int64_t rows, std::int64_t inner, std::int64_t columns, const float* x,
                  std::int64_t ldx, const float* a, std::int64_t lda, float* y, std::int64_t ldy) {
  ops::cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows),
                         static_cast<int>(columns), static_cast<int>(inner), 1.0f, x,
                         static_cast<int>(ldx), a, static_cast<int>(lda), 1.0f, y,
                         static_cast<int>(ldy));
}

// One task: some output rows, each of which has the loss e H e for its error e.
class RowRefiner : RefinedRows {
 public:
  RowRefiner(const RefinedLayer& layer, std::int64_t first, std::int64_t rows)
      : RefinedRows(layer, first, rows), gradient_(index(rows * layer.k)) {}

  void run(const RefineOptions& options) {
    std::vector<double> losses = measure();
    for (int sweep = 0; sweep < options.sweeps; ++sweep) {
      const Saved before = save();
      for (std::int64_t g = 0; g < groups(); ++g) {
        sweep_group(g, options.scales);
      }
      const std::vector<double> now = measure();
      bool undone = false;
      for (std::int64_t row = 0; row < rows(); ++row) {
        if (!(now[index(row)] < losses[index(row)])) {
          restore(before, row);
          undone = true;
        }
      }
      losses = undone ? measure() : now;
    }
  }

 private:
  float* gradient(std::int64_t row, std::int64_t input) {
    return &gradient_[index(row * k() + input)];
  }

  // Errors and gradients afresh from codes and parameters; e H e of each row.
  std::vector<double> measure() {
    decode();
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    multiply_add(rows(), k(), k(), error(0, 0), k(), hessian(0, 0), k(), gradient_.data(), k());
    std::vector<double> losses(index(rows()));
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t i = 0; i < k(); ++i) {
        losses[index(row)] += static_cast<double>(*error(row, i)) * *gradient(row, i);
      }
    }
    return losses;
  }

  // Codes and scale of one group of all rows. The gradient is right for this group and all later
  // ones when this begins, and for all later ones when it ends.
  void sweep_group(std::int64_t g, bool scales) {
    const auto [begin, width, tail] = range(g);
    const std::int64_t end = begin + width;
    std::vector<float> change(index(rows() * width));
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        change[index(row * width + i)] = -*error(row, begin + i);
      }
      sweep_codes(row, g);
    }
    if (scales) {
      fit_scales(g);
    }
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        change[index(row * width + i)] += *error(row, begin + i);
      }
    }
    if (end < k()) {
      multiply_add(rows(), width, k() - end, change.data(), width, hessian(begin, end), k(),
                   gradient(0, end), k());
    }
  }

  // e H e as a function of one e_j is least where the gradient is zero.
  void sweep_codes(std::int64_t row, std::int64_t g) {
    const auto [begin, width, tail] = range(g);
    float* gradients = gradient(row, begin);
    for (std::int64_t j = begin; j < begin + width; ++j) {
      const float curvature = *hessian(j, j);
      if (!(curvature > 0) || !keeps(row, j)) {
        continue;
      }
      const float moved = move_code(row, j, g, *gradient(row, j), curvature);
      if (moved == 0) {
        continue;
      }
      const float* h = hessian(j, begin);
      for (std::int64_t i = 0; i < width; ++i) {
        gradients[i] += moved * h[i];
      }
    }
  }

  // With v the values of the group's codes at scale 1, e H e changes by 2 d v.D + d^2 v H v when
  // the scale changes by d.
  void fit_scales(std::int64_t g) {
    const auto [begin, width, tail] = range(g);
    std::vector<float> values(index(rows() * width));
    std::vector<float> products(values.size());
    for (std::int64_t row = 0; row < rows(); ++row) {
      decode_at_unit_scale(row, g, {&values[index(row * width)], index(width)});
    }
    multiply_add(rows(), width, width, values.data(), width, hessian(begin, begin), k(),
                 products.data(), width);
    for (std::int64_t row = 0; row < rows(); ++row) {
      double slope = 0;
      double curvature = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double v = values[index(row * width + i)];
        slope += v * *gradient(row, begin + i);
        curvature += v * products[index(row * width + i)];
      }
      move_scale(row, g, slope, curvature);
    }
  }

  std::vector<float> gradient_;  // [rows, k]: D = E H
};

}  // namespace

std::vector<float> symmetric_hessian(const std::vector<float>& lower, std::int64_t k, double damp) {
  std::vector<float> result = lower;
  double mean = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    mean += static_cast<double>(lower[index(i * k + i)]) / static_cast<double>(k);
    for (std::int64_t j = i + 1; j < k; ++j) {
      result[index(i * k + j)] = lower[index(j * k + i)];
    }
  }
  for (std::int64_t i = 0; i < k; ++i) {
    result[index(i * k + i)] += static_cast<float>(damp * mean);
  }
  return result;
}

void refine(CodedWeight& coded, std::span<const float> target, std::int64_t n, std::int64_t k,
            const Scheme& scheme, const std::vector<float>& hessian, const RefineOptions& options,
            core::ThreadPool& pool, std::span<const std::uint8_t> kept) {
  const RowFormats row_formats(scheme, coded.parameters);
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    RowRefiner({coded, row_formats, target, k, scheme, hessian, kept}, begin, end - begin)
        .run(options);
  });
}

}  // namespace nibble::compress
