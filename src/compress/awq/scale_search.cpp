#include "compress/awq/scale_search.h"

#include <algorithm>
#include <cmath>

#include "compress/awq/cuda_awq.h"
#include "compress/coding/gpu_coder.h"
#include "compress/coding/round_row.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

constexpr int kSteps = 20;  // values of the exponent r in [0, 1)
constexpr double kSmallest = 1e-4;
constexpr float kLeastMagnitude = 1e-6f;  // of the largest weight of a group

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

// Adds |w| relative to the largest of its group to the sums of its columns, row after row.
void add_magnitudes(const LayerWork& layer, std::vector<double>& sums, core::ThreadPool& pool) {
  const std::int64_t k = layer.k();
  const std::int64_t group = formats::group_size(layer.scheme, k);
  pool.parallel_for((k + group - 1) / group, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = 0; row < layer.n(); ++row) {
      const float* w = layer.weights.data() + row * k;
      for (std::int64_t begin = first * group; begin < last * group; begin += group) {
        const std::int64_t end = std::min(k, begin + group);
        float largest = kLeastMagnitude;
        for (std::int64_t j = begin; j < end; ++j) {
          largest = std::max(largest, std::fabs(w[j]));
        }
        for (std::int64_t j = begin; j < end; ++j) {
          sums[static_cast<std::size_t>(j)] += static_cast<double>(std::fabs(w[j]) / largest);
        }
      }
    }
  });
}

// Mean over all rows of |w| relative to the largest of its group: 1 where a channel sets the range.
std::vector<float> relative_magnitude(const SetWork& set, core::ThreadPool& pool) {
  std::vector<double> sums(static_cast<std::size_t>(set.layers.front().k()));
  double rows = 0;
  for (const LayerWork& layer : set.layers) {
    add_magnitudes(layer, sums, pool);
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
std::vector<std::vector<float>> candidates(const SetWork& set, core::ThreadPool& pool) {
  const std::vector<double> x = per_scale(set.source, set.statistics->mean_magnitude());
  const std::vector<double> w = per_scale(set.source, relative_magnitude(set, pool));
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

// tr(E H E^T) over some rows of a layer for the scales of its k columns.
double output_error(const LayerWork& layer, const std::vector<float>& scale,
                    const std::vector<float>& hessian) {
  const std::int64_t k = layer.k();
  const std::int64_t rows = std::min(layer.n(), kSearchedRows);
  const auto format = formats::make_format(trial_scheme(layer.scheme));
  std::vector<float> error(static_cast<std::size_t>(rows * k));
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* w = layer.weights.data() + searched_row(i, rows, layer.n()) * k;
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
  ops::cpu::blas().ssymm(CblasRowMajor, CblasRight, CblasLower, static_cast<int>(rows),
                         static_cast<int>(k), 1.0f, hessian.data(), static_cast<int>(k),
                         error.data(), static_cast<int>(k), 0.0f, product.data(),
                         static_cast<int>(k));
  double sum = 0;
  for (std::size_t i = 0; i < error.size(); ++i) {
    sum += static_cast<double>(error[i]) * static_cast<double>(product[i]);
  }
  return sum * static_cast<double>(layer.n()) / static_cast<double>(rows);
}

}  // namespace

// Books that are yet to be learned are taken for NF4 (those of fewer than 16 values for integers),
// and the scales of NVFP4, whose global scale depends on what is found here, for fp16.
formats::Scheme trial_scheme(formats::Scheme scheme) {
  if (formats::has_learned_book(scheme)) {
    if (scheme.code.bits < 4) {
      scheme.code = {.type = &formats::kIntegerCodes, .bits = scheme.code.bits};
    } else {
      scheme.code.book = formats::Book::kNf4;
    }
  }
  if (scheme.scale.type == formats::ScaleType::kE4m3) {
    scheme.scale.type = formats::ScaleType::kF16;
  }
  return scheme;
}

std::vector<double> scale_errors(const SetWork& set, std::span<const std::vector<float>> scales,
                                 core::ThreadPool& pool) {
  std::vector<double> errors(scales.size());
  pool.parallel_for(
      static_cast<std::int64_t>(scales.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          for (const LayerWork& layer : set.layers) {
            errors[i] +=
                layer.is_dense() ? 0.0 : output_error(layer, scales[i], set.statistics->hessian());
          }
        }
      });
  return errors;
}

std::vector<double> scale_errors(const SetWork& set, std::span<const std::vector<float>> scales,
                                 const Backend& backend) {
  return awq_runs_on_gpu(set, backend) ? cuda::scale_errors(backend.gpu(), set, scales)
                                       : scale_errors(set, scales, backend.pool());
}

bool awq_runs_on_gpu(const formats::Scheme& scheme) {
  return has_gpu_coder(trial_scheme(scheme)) && has_gpu_coder(scheme);
}

bool awq_runs_on_gpu(const SetWork& set, const Backend& backend) {
  return backend.has_gpu() &&
         std::all_of(set.layers.begin(), set.layers.end(), [](const LayerWork& layer) {
           return layer.is_dense() || awq_runs_on_gpu(layer.scheme);
         });
}

std::vector<float> search_scales(const SetWork& set, const Backend& backend) {
  std::vector<std::vector<float>> all = candidates(set, backend.pool());
  std::vector<std::vector<float>> by_channel;
  for (const std::vector<float>& scales : all) {
    std::vector<float>& channels = by_channel.emplace_back();
    for (const std::int32_t scale : set.source.scale_of) {
      channels.push_back(scales[static_cast<std::size_t>(scale)]);
    }
  }
  const std::vector<double> errors = scale_errors(set, by_channel, backend);
  const auto best = std::min_element(errors.begin(), errors.end()) - errors.begin();
  return std::move(all[static_cast<std::size_t>(best)]);
}

}  // namespace nibble::compress
