#include "compress/awq/scale_search.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>

#include "compress/round_row.h"
#include "formats/book_size.h"

namespace nibble::compress {
namespace {

constexpr int kSteps = 20;                   // values of the exponent r in [0, 1)
constexpr std::int64_t kRowsOfALayer = 512;  // output rows that the search looks at
constexpr double kSmallest = 1e-4;

// Mean of each scale's channels.
std::vector<double> per_scale(const InputSource& source, const std::vector<float>& channels) {
  std::vector<double> sums(static_cast<std::size_t>(source.scales));
  std::vector<double> counts(sums.size());
  for (std::size_t j = 0; j < channels.size(); ++j) {
    const auto scale = static_cast<std::size_t>(source.scale_of[j]);
    sums[scale] += static_cast<double>(channels[j]);
    counts[scale] += 1;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] /= counts[i];
  }
  return sums;
}

// Mean over all rows of |w| relative to the largest of its group: 1 where a channel sets the range.
std::vector<float> relative_magnitude(const SetWork& set) {
  const std::int64_t k = set.layers.front().k();
  std::vector<double> sums(static_cast<std::size_t>(k));
  double rows = 0;
  for (const LayerWork& layer : set.layers) {
    const std::int64_t group = formats::group_size(layer.scheme, k);
    for (std::int64_t row = 0; row < layer.n(); ++row) {
      const float* w = layer.weights.data() + row * k;
      for (std::int64_t begin = 0; begin < k; begin += group) {
        const std::int64_t end = std::min(k, begin + group);
        float largest = 1e-6f;
        for (std::int64_t j = begin; j < end; ++j) {
          largest = std::max(largest, std::fabs(w[j]));
        }
        for (std::int64_t j = begin; j < end; ++j) {
          sums[static_cast<std::size_t>(j)] += static_cast<double>(std::fabs(w[j]) / largest);
        }
      }
    }
    rows += static_cast<double>(layer.n());
  }
  std::vector<float> mean(sums.size());
  std::transform(sums.begin(), sums.end(), mean.begin(),
                 [&](double sum) { return static_cast<float>(sum / rows); });
  return mean;
}

// Scales around 1: divided by the geometric middle of their range.
std::vector<float> centred(std::vector<double> scales) {
  for (double& s : scales) {
    s = std::isfinite(s) ? std::max(s, kSmallest) : 1.0;
  }
  const auto [least, most] = std::minmax_element(scales.begin(), scales.end());
  const double middle = std::sqrt(*least * *most);
  std::vector<float> result(scales.size());
  std::transform(scales.begin(), scales.end(), result.begin(),
                 [&](double s) { return static_cast<float>(s / middle); });
  return result;
}

// The candidates: ones, then x^r and x^r / w^(1-r) for every r.
std::vector<std::vector<float>> candidates(const SetWork& set) {
  const std::vector<double> x = per_scale(set.source, set.statistics->mean_magnitude());
  const std::vector<double> w = per_scale(set.source, relative_magnitude(set));
  std::vector<std::vector<float>> all;
  for (int step = 0; step < kSteps; ++step) {
    const double r = static_cast<double>(step) / kSteps;
    std::vector<double> plain(x.size());
    std::vector<double> relative(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      plain[i] = std::max(std::pow(x[i], r), kSmallest);
      relative[i] = std::pow(x[i], r) / (std::pow(w[i], 1 - r) + kSmallest);
    }
    all.push_back(centred(plain));
    all.push_back(centred(relative));
  }
  return all;
}

// What the search rounds with: books that are yet to be learned are taken for NF4 (those of fewer
// than 16 values for integers), and the scales
// of NVFP4, whose global scale depends on what is found here, for fp16.
std::unique_ptr<const formats::Format> trial_format(formats::Scheme scheme) {
  if (formats::has_learned_book(scheme)) {
    const bool short_book = scheme.bits < 4;
    scheme.kind = short_book ? formats::FormatKind::kInt : formats::FormatKind::kLut4;
    scheme.book = short_book ? formats::Book::kNone : formats::Book::kNf4;
  }
  if (scheme.kind == formats::FormatKind::kNv) {
    scheme.kind = formats::FormatKind::kLut4;
    scheme.book = formats::Book::kFp4;
  }
  return formats::make_format(scheme);
}

// tr(E H E^T) over some rows of a layer for the scales of its k columns.
double output_error(const LayerWork& layer, const std::vector<float>& scale,
                    const std::vector<float>& hessian) {
  const std::int64_t k = layer.k();
  const std::int64_t rows = std::min(layer.n(), kRowsOfALayer);
  const auto format = trial_format(layer.scheme);
  std::vector<float> error(static_cast<std::size_t>(rows * k));
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* w = layer.weights.data() + i * layer.n() / rows * k;
    float* e = error.data() + i * k;
    for (std::int64_t j = 0; j < k; ++j) {
      e[j] = w[j] * scale[static_cast<std::size_t>(j)];
    }
    round_row(*format, {e, static_cast<std::size_t>(k)});
    for (std::int64_t j = 0; j < k; ++j) {
      e[j] = w[j] - e[j] / scale[static_cast<std::size_t>(j)];
    }
  }
  std::vector<float> product(error.size());
  cblas_ssymm(CblasRowMajor, CblasRight, CblasLower, static_cast<int>(rows), static_cast<int>(k),
              1.0f, hessian.data(), static_cast<int>(k), error.data(), static_cast<int>(k), 0.0f,
              product.data(), static_cast<int>(k));
  double sum = 0;
  for (std::size_t i = 0; i < error.size(); ++i) {
    sum += static_cast<double>(error[i]) * static_cast<double>(product[i]);
  }
  return sum * static_cast<double>(layer.n()) / static_cast<double>(rows);
}

}  // namespace

std::vector<float> search_scales(const SetWork& set, core::ThreadPool& pool) {
  std::vector<std::vector<float>> all = candidates(set);
  std::vector<double> errors(all.size());
  pool.parallel_for(
      static_cast<std::int64_t>(all.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto index = static_cast<std::size_t>(i);
          std::vector<float> channels;
          for (const std::int32_t scale : set.source.scale_of) {
            channels.push_back(all[index][static_cast<std::size_t>(scale)]);
          }
          for (const LayerWork& layer : set.layers) {
            errors[index] +=
                layer.is_dense() ? 0.0 : output_error(layer, channels, set.statistics->hessian());
          }
        }
      });
  const auto best = std::min_element(errors.begin(), errors.end()) - errors.begin();
  return std::move(all[static_cast<std::size_t>(best)]);
}

}  // namespace nibble::compress
