#include "compress/refine/model_refine.h"

#include <algorithm>
#include <numeric>

#include <cblas.h>

namespace nibble::compress {
namespace {

using formats::Format;
using formats::GroupParameters;
using formats::Scheme;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// y [m, n] = x [m, inner] a [inner, n]; leading dimensions as given.
void multiply(std::int64_t m, std::int64_t n, std::int64_t inner, const float* x, std::int64_t ldx,
              const float* a, std::int64_t lda, float* y, std::int64_t ldy) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(inner), 1.0f, x, static_cast<int>(ldx), a, static_cast<int>(lda),
              0.0f, y, static_cast<int>(ldy));
}

void add_multiple(float factor, const float* x, float* y, std::int64_t n) {
  cblas_saxpy(static_cast<int>(n), factor, x, 1, y, 1);
}

class BlockRefiner {
 public:
  BlockRefiner(CodedWeight& coded, const RowFormats& row_formats, std::span<const float> target,
               std::int64_t k, const Scheme& scheme, const ModelObjective& objective,
               std::int64_t block, std::span<const std::uint8_t> kept)
      : coded_(coded),
        row_formats_(row_formats),
        target_(target),
        k_(k),
        scheme_(scheme),
        groups_(formats::groups_per_row(scheme, k)),
        hessian_(objective.hessian),
        kept_(kept),
        first_(objective.outputs.first(block)),
        rows_(objective.outputs.width(block)),
        outputs_(objective.outputs.block(block).begin(), objective.outputs.block(block).end()),
        error_(index(rows_ * k)),
        error_hessian_(index(rows_ * k)) {
    double mean = 0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      mean += static_cast<double>(outputs(i)[i]) / static_cast<double>(rows_);
    }
    // Without any gradient every row is on its own.
    const double added = mean > 0 ? objective.damp * mean : 1.0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      outputs(i)[i] += static_cast<float>(added);
    }
  }

  void run(const RefineOptions& options) {
    double loss = measure();
    for (int sweep = 0; sweep < options.sweeps; ++sweep) {
      const auto codes = std::vector(code(0, 0), code(0, 0) + rows_ * k_);
      const auto groups = std::vector(&group(0, 0), &group(0, 0) + rows_ * groups_);
      for (std::int64_t g = 0; g < groups_; ++g) {
        const GroupRange range = group_range(scheme_, k_, g);
        for (std::int64_t j = range.begin; j < range.begin + range.width; ++j) {
          sweep_input(j, g);
        }
        if (options.scales) {
          fit_scales(range, g);
        }
      }
      const double now = measure();
      if (!(now < loss)) {
        std::copy(codes.begin(), codes.end(), code(0, 0));
        std::copy(groups.begin(), groups.end(), &group(0, 0));
        return;
      }
      loss = now;
    }
  }

 private:
  std::uint8_t* code(std::int64_t row, std::int64_t input) {
    return coded_.codes.data() + (first_ + row) * k_ + input;
  }
  GroupParameters& group(std::int64_t row, std::int64_t g) {
    return coded_.parameters.groups[index((first_ + row) * groups_ + g)];
  }
  const Format& format(std::int64_t row) const { return row_formats_.of(first_ + row); }
  float target(std::int64_t row, std::int64_t input) const {
    return target_[index((first_ + row) * k_ + input)];
  }
  bool keeps(std::int64_t row, std::int64_t input) const {
    return kept_.empty() || kept_[index((first_ + row) * k_ + input)] != 0;
  }
  float* outputs(std::int64_t row) { return outputs_.data() + row * rows_; }
  float* error(std::int64_t row, std::int64_t input) { return &error_[index(row * k_ + input)]; }
  float* error_hessian(std::int64_t row, std::int64_t input) {
    return &error_hessian_[index(row * k_ + input)];
  }
  const float* hessian(std::int64_t i, std::int64_t j) const {
    return hessian_.data() + i * k_ + j;
  }

  // E and E H afresh from codes and parameters; tr(G E H E^T).
  double measure() {
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t g = 0; g < groups_; ++g) {
        decode(row, g);
      }
    }
    multiply(rows_, k_, k_, error_.data(), k_, hessian_.data(), k_, error_hessian_.data(), k_);
    std::vector<float> product(index(rows_ * k_));
    multiply(rows_, k_, rows_, outputs_.data(), rows_, error_hessian_.data(), k_, product.data(),
             k_);
    return std::inner_product(product.begin(), product.end(), error_.begin(), 0.0);
  }

  void decode(std::int64_t row, std::int64_t g) {
    const GroupRange range = group_range(scheme_, k_, g);
    const auto width = index(range.width);
    format(row).decode_group({code(row, range.begin), width}, group(row, g),
                             {error(row, range.begin), width});
    for (std::int64_t i = range.begin; i < range.begin + range.width; ++i) {
      *error(row, i) -= target(row, i);
    }
  }

  // The codes of input j in all rows. The loss as a function of one e_ij has slope 2 (G E H)_ij and
  // curvature G_ii H_jj.
  void sweep_input(std::int64_t j, std::int64_t g) {
    const float input_curvature = *hessian(j, j);
    if (!(input_curvature > 0)) {
      return;
    }
    std::vector<float> column(index(rows_));
    for (std::int64_t row = 0; row < rows_; ++row) {
      column[index(row)] = *error_hessian(row, j);
    }
    std::vector<float> slope(index(rows_));
    cblas_sgemv(CblasRowMajor, CblasNoTrans, static_cast<int>(rows_), static_cast<int>(rows_), 1.0f,
                outputs_.data(), static_cast<int>(rows_), column.data(), 1, 0.0f, slope.data(), 1);
    for (std::int64_t row = 0; row < rows_; ++row) {
      const float curvature = outputs(row)[row] * input_curvature;
      if (!(curvature > 0) || !keeps(row, j)) {
        continue;
      }
      const GroupParameters& parameters = group(row, g);
      const float wish = target(row, j) + *error(row, j) - slope[index(row)] / curvature;
      const std::uint8_t next = format(row).encode(wish, parameters);
      if (next == *code(row, j)) {
        continue;
      }
      const float moved = format(row).decode(next, parameters) - target(row, j) - *error(row, j);
      *code(row, j) = next;
      *error(row, j) += moved;
      add_multiple(moved, hessian(j, 0), error_hessian(row, 0), k_);
      add_multiple(moved * input_curvature, outputs(row), slope.data(), rows_);
    }
  }

  // With v the values of a row's codes at scale 1, the loss changes by 2 d v.(G E H)_i + d^2 G_ii
  // v H v when the scale changes by d.
  void fit_scales(GroupRange range, std::int64_t g) {
    std::vector<float> slopes(index(rows_ * range.width));
    multiply(rows_, range.width, rows_, outputs_.data(), rows_, error_hessian(0, range.begin), k_,
             slopes.data(), range.width);
    std::vector<float> values(index(range.width));
    std::vector<float> products(index(k_));
    for (std::int64_t row = 0; row < rows_; ++row) {
      GroupParameters& parameters = group(row, g);
      format(row).decode_group({code(row, range.begin), index(range.width)},
                               {1.0f, parameters.zero}, values);
      multiply(1, k_, range.width, values.data(), range.width, hessian(range.begin, 0), k_,
               products.data(), k_);
      const float* own = &slopes[index(row * range.width)];
      const double slope = std::inner_product(values.begin(), values.end(), own, 0.0);
      const double curvature =
          static_cast<double>(outputs(row)[row]) *
          std::inner_product(values.begin(), values.end(), &products[index(range.begin)], 0.0);
      const double wish = parameters.scale - slope / curvature;
      if (!(curvature > 0) || !(wish * parameters.scale > 0)) {
        continue;  // no weight of the group uses the scale, or it would change its sign
      }
      const float scale = format(row).stored_scale(wish);
      const double step = static_cast<double>(scale) - parameters.scale;
      if (2 * step * slope + step * step * curvature >= 0) {
        continue;
      }
      parameters.scale = scale;
      decode(row, g);
      const auto moved = static_cast<float>(step);
      add_multiple(moved, products.data(), error_hessian(row, 0), k_);
      for (std::int64_t other = row + 1; other < rows_; ++other) {
        add_multiple(moved * outputs(row)[other], &products[index(range.begin)],
                     &slopes[index(other * range.width)], range.width);
      }
    }
  }

  CodedWeight& coded_;
  const RowFormats& row_formats_;
  std::span<const float> target_;
  std::int64_t k_;
  Scheme scheme_;
  std::int64_t groups_;
  const std::vector<float>& hessian_;
  std::span<const std::uint8_t> kept_;  // of the whole layer
  std::int64_t first_;
  std::int64_t rows_;
  std::vector<float> outputs_;        // [rows, rows]: G, damped
  std::vector<float> error_;          // [rows, k]: E, decoded - target
  std::vector<float> error_hessian_;  // [rows, k]: E H
};

}  // namespace

void refine_for_model(CodedWeight& coded, std::span<const float> target, std::int64_t k,
                      const Scheme& scheme, const ModelObjective& objective, std::int64_t block,
                      const RefineOptions& options, std::span<const std::uint8_t> kept) {
  const RowFormats row_formats(scheme, coded.parameters.books);
  BlockRefiner(coded, row_formats, target, k, scheme, objective, block, kept).run(options);
}

}  // namespace nibble::compress
