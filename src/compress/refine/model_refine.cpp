#include "compress/refine/model_refine.h"

#include <numeric>

#include "compress/refine/refined_rows.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

using formats::Scheme;

// y [m, n] = x [m, inner] a [inner, n]; leading dimensions as given.
void multiply(std::int64_t m, std::int64_t n, std::int64_t inner, const float* x, std::int64_t ldx,
              const float* a, std::int64_t lda, float* y, std::int64_t ldy) {
  ops::cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m),
                         static_cast<int>(n), static_cast<int>(inner), 1.0f, x,
                         static_cast<int>(ldx), a, static_cast<int>(lda), 0.0f, y,
                         static_cast<int>(ldy));
}

void add_multiple(float factor, const float* x, float* y, std::int64_t n) {
  ops::cpu::blas().saxpy(static_cast<int>(n), factor, x, 1, y, 1);
}

// The rows of one block of G, which have the loss tr(G E H E^T) together.
class BlockRefiner : RefinedRows {
 public:
  BlockRefiner(const RefinedLayer& layer, const ModelObjective& objective, std::int64_t block)
      : RefinedRows(layer, objective.outputs.first(block), objective.outputs.width(block)),
        outputs_(objective.outputs.block(block).begin(), objective.outputs.block(block).end()),
        error_hessian_(index(rows() * layer.k)) {
    double mean = 0;
    for (std::int64_t i = 0; i < rows(); ++i) {
      mean += static_cast<double>(outputs(i)[i]) / static_cast<double>(rows());
    }
    // Without any gradient every row is on its own.
    const double added = mean > 0 ? objective.damp * mean : 1.0;
    for (std::int64_t i = 0; i < rows(); ++i) {
      outputs(i)[i] += static_cast<float>(added);
    }
  }

  void run(const RefineOptions& options) {
    double loss = measure();
    for (int sweep = 0; sweep < options.sweeps; ++sweep) {
      const Saved before = save();
      for (std::int64_t g = 0; g < groups(); ++g) {
        const GroupRange inputs = range(g);
        for (std::int64_t j = inputs.begin; j < inputs.begin + inputs.width; ++j) {
          sweep_input(j, g);
        }
        if (options.scales) {
          fit_scales(g);
        }
      }
      const double now = measure();
      if (!(now < loss)) {
        for (std::int64_t row = 0; row < rows(); ++row) {
          restore(before, row);
        }
        return;
      }
      loss = now;
    }
  }

 private:
  float* outputs(std::int64_t row) { return outputs_.data() + row * rows(); }
  float* error_hessian(std::int64_t row, std::int64_t input) {
    return &error_hessian_[index(row * k() + input)];
  }

  // E and E H afresh from codes and parameters; tr(G E H E^T).
  double measure() {
    decode();
    multiply(rows(), k(), k(), error(0, 0), k(), hessian(0, 0), k(), error_hessian_.data(), k());
    std::vector<float> product(index(rows() * k()));
    multiply(rows(), k(), rows(), outputs_.data(), rows(), error_hessian_.data(), k(),
             product.data(), k());
    return std::inner_product(product.begin(), product.end(), error(0, 0), 0.0);
  }

  // The codes of input j in all rows. The loss as a function of one e_ij has slope 2 (G E H)_ij and
  // curvature G_ii H_jj.
  void sweep_input(std::int64_t j, std::int64_t g) {
    const float input_curvature = *hessian(j, j);
    if (!(input_curvature > 0)) {
      return;
    }
    std::vector<float> column(index(rows()));
    for (std::int64_t row = 0; row < rows(); ++row) {
      column[index(row)] = *error_hessian(row, j);
    }
    std::vector<float> slope(index(rows()));
    ops::cpu::blas().sgemv(CblasRowMajor, CblasNoTrans, static_cast<int>(rows()),
                           static_cast<int>(rows()), 1.0f, outputs_.data(),
                           static_cast<int>(rows()), column.data(), 1, 0.0f, slope.data(), 1);
    for (std::int64_t row = 0; row < rows(); ++row) {
      const float curvature = outputs(row)[row] * input_curvature;
      if (!(curvature > 0) || !keeps(row, j)) {
        continue;
      }
      const float moved = move_code(row, j, g, slope[index(row)], curvature);
      if (moved == 0) {
        continue;
      }
      add_multiple(moved, hessian(j, 0), error_hessian(row, 0), k());
      add_multiple(moved * input_curvature, outputs(row), slope.data(), rows());
    }
  }

  // With v the values of a row's codes at scale 1, the loss changes by 2 d v.(G E H)_i + d^2 G_ii
  // v H v when the scale changes by d.
  void fit_scales(std::int64_t g) {
    const auto [begin, width, tail] = range(g);
    std::vector<float> slopes(index(rows() * width));
    multiply(rows(), width, rows(), outputs_.data(), rows(), error_hessian(0, begin), k(),
             slopes.data(), width);
    std::vector<float> values(index(width));
    std::vector<float> products(index(k()));
    for (std::int64_t row = 0; row < rows(); ++row) {
      decode_at_unit_scale(row, g, values);
      multiply(1, k(), width, values.data(), width, hessian(begin, 0), k(), products.data(), k());
      const float* own = &slopes[index(row * width)];
      const double slope = std::inner_product(values.begin(), values.end(), own, 0.0);
      const double curvature =
          static_cast<double>(outputs(row)[row]) *
          std::inner_product(values.begin(), values.end(), &products[index(begin)], 0.0);
      const auto moved = static_cast<float>(move_scale(row, g, slope, curvature));
      if (moved == 0) {
        continue;
      }
      add_multiple(moved, products.data(), error_hessian(row, 0), k());
      for (std::int64_t other = row + 1; other < rows(); ++other) {
        add_multiple(moved * outputs(row)[other], &products[index(begin)],
                     &slopes[index(other * width)], width);
      }
    }
  }

  std::vector<float> outputs_;        // [rows, rows]: G, damped
  std::vector<float> error_hessian_;  // [rows, k]: E H
};

}  // namespace

void refine_for_model(CodedWeight& coded, std::span<const float> target, std::int64_t k,
                      const Scheme& scheme, const ModelObjective& objective, std::int64_t block,
                      const RefineOptions& options, std::span<const std::uint8_t> kept) {
  const RowFormats row_formats(scheme, coded.parameters);
  BlockRefiner({coded, row_formats, target, k, scheme, objective.hessian, kept}, objective, block)
      .run(options);
}

}  // namespace nibble::compress
