#include "compress/refine/refine.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>

namespace nibble::compress {
namespace {

using formats::Format;
using formats::GroupParameters;
using formats::Scheme;

constexpr std::int64_t kRows = 64;  // output rows of one task; rows do not influence one another

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// y[rows, columns] += x[rows, inner] a[inner, columns], leading dimensions as given.
void multiply_add(std::int64_t rows, std::int64_t inner, std::int64_t columns, const float* x,
                  std::int64_t ldx, const float* a, std::int64_t lda, float* y, std::int64_t ldy) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows),
              static_cast<int>(columns), static_cast<int>(inner), 1.0f, x, static_cast<int>(ldx), a,
              static_cast<int>(lda), 1.0f, y, static_cast<int>(ldy));
}

// One task: output rows [first, first + rows).
class RowRefiner {
 public:
  RowRefiner(CodedWeight& coded, const RowFormats& row_formats, std::span<const float> target,
             std::int64_t k, const Scheme& scheme, const std::vector<float>& hessian,
             std::span<const std::uint8_t> kept, std::int64_t first, std::int64_t rows)
      : coded_(coded),
        row_formats_(row_formats),
        target_(target),
        k_(k),
        scheme_(scheme),
        groups_(formats::groups_per_row(scheme, k)),
        hessian_(hessian),
        kept_(kept),
        first_(first),
        rows_(rows),
        error_(index(rows * k)),
        gradient_(index(rows * k)) {}

  void run(const RefineOptions& options) {
    std::vector<double> losses = measure();
    for (int sweep = 0; sweep < options.sweeps; ++sweep) {
      const auto codes = std::vector(code(0, 0), code(0, 0) + rows_ * k_);
      const auto groups = std::vector(&group(0, 0), &group(0, 0) + rows_ * groups_);
      for (std::int64_t g = 0; g < groups_; ++g) {
        sweep_group(group_range(scheme_, k_, g), g, options.scales);
      }
      const std::vector<double> now = measure();
      bool undone = false;
      for (std::int64_t row = 0; row < rows_; ++row) {
        if (!(now[index(row)] < losses[index(row)])) {
          std::copy_n(codes.begin() + row * k_, k_, code(row, 0));
          std::copy_n(groups.begin() + row * groups_, groups_, &group(row, 0));
          undone = true;
        }
      }
      losses = undone ? measure() : now;
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
  float* error(std::int64_t row, std::int64_t input) { return &error_[index(row * k_ + input)]; }
  float* gradient(std::int64_t row, std::int64_t input) {
    return &gradient_[index(row * k_ + input)];
  }
  const float* hessian(std::int64_t i, std::int64_t j) const {
    return hessian_.data() + i * k_ + j;
  }

  // Errors and gradients afresh from codes and parameters; e H e of each row.
  std::vector<double> measure() {
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t g = 0; g < groups_; ++g) {
        decode(row, g);
      }
    }
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    multiply_add(rows_, k_, k_, error_.data(), k_, hessian_.data(), k_, gradient_.data(), k_);
    std::vector<double> losses(index(rows_));
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t i = 0; i < k_; ++i) {
        losses[index(row)] += static_cast<double>(*error(row, i)) * *gradient(row, i);
      }
    }
    return losses;
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

  // Codes and scale of one group of all rows. The gradient is right for this group and all later
  // ones when this begins, and for all later ones when it ends.
  void sweep_group(GroupRange range, std::int64_t g, bool scales) {
    const std::int64_t end = range.begin + range.width;
    std::vector<float> change(index(rows_ * range.width));
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t i = 0; i < range.width; ++i) {
        change[index(row * range.width + i)] = -*error(row, range.begin + i);
      }
      sweep_codes(row, range, g);
    }
    if (scales) {
      fit_scales(range, g);
    }
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t i = 0; i < range.width; ++i) {
        change[index(row * range.width + i)] += *error(row, range.begin + i);
      }
    }
    if (end < k_) {
      multiply_add(rows_, range.width, k_ - end, change.data(), range.width,
                   hessian(range.begin, end), k_, gradient(0, end), k_);
    }
  }

  // e H e as a function of one e_j is least where the gradient is zero.
  void sweep_codes(std::int64_t row, GroupRange range, std::int64_t g) {
    const GroupParameters& parameters = group(row, g);
    float* gradients = gradient(row, range.begin);
    for (std::int64_t j = range.begin; j < range.begin + range.width; ++j) {
      const float curvature = *hessian(j, j);
      if (!(curvature > 0) || !keeps(row, j)) {
        continue;
      }
      const float wish = target(row, j) + *error(row, j) - *gradient(row, j) / curvature;
      const std::uint8_t next = format(row).encode(wish, parameters);
      if (next == *code(row, j)) {
        continue;
      }
      const float moved = format(row).decode(next, parameters) - target(row, j) - *error(row, j);
      *code(row, j) = next;
      *error(row, j) += moved;
      const float* h = hessian(j, range.begin);
      for (std::int64_t i = 0; i < range.width; ++i) {
        gradients[i] += moved * h[i];
      }
    }
  }

  // With v the values of the group's codes at scale 1, e H e changes by 2 d v.D + d^2 v H v when
  // the scale changes by d.
  void fit_scales(GroupRange range, std::int64_t g) {
    std::vector<float> values(index(rows_ * range.width));
    std::vector<float> products(values.size());
    for (std::int64_t row = 0; row < rows_; ++row) {
      format(row).decode_group({code(row, range.begin), index(range.width)},
                               {1.0f, group(row, g).zero},
                               {&values[index(row * range.width)], index(range.width)});
    }
    multiply_add(rows_, range.width, range.width, values.data(), range.width,
                 hessian(range.begin, range.begin), k_, products.data(), range.width);
    for (std::int64_t row = 0; row < rows_; ++row) {
      fit_scale(row, range, g, &values[index(row * range.width)],
                &products[index(row * range.width)]);
    }
  }

  void fit_scale(std::int64_t row, GroupRange range, std::int64_t g, const float* v,
                 const float* hv) {
    double slope = 0;
    double curvature = 0;
    for (std::int64_t i = 0; i < range.width; ++i) {
      slope += static_cast<double>(v[i]) * *gradient(row, range.begin + i);
      curvature += static_cast<double>(v[i]) * hv[i];
    }
    GroupParameters& parameters = group(row, g);
    const double wish = parameters.scale - slope / curvature;
    if (!(curvature > 0) || !(wish * parameters.scale > 0)) {
      return;  // no weight of the group uses the scale, or it would change its sign
    }
    const float scale = format(row).stored_scale(wish);
    const double step = static_cast<double>(scale) - parameters.scale;
    if (2 * step * slope + step * step * curvature >= 0) {
      return;
    }
    parameters.scale = scale;
    decode(row, g);
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
  std::vector<float> error_;     // [rows, k]: decoded - target
  std::vector<float> gradient_;  // [rows, k]: error H
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
    RowRefiner(coded, row_formats, target, k, scheme, hessian, kept, begin, end - begin)
        .run(options);
  });
}

}  // namespace nibble::compress
