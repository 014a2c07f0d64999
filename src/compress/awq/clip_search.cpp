#include "compress/awq/clip_search.h"

#include <algorithm>
#include <cmath>

#include "compress/awq/cuda_awq.h"
#include "compress/awq/scale_search.h"
#include "compress/coding/coded_weight.h"
#include "formats/format.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

constexpr int kSteps = 10;  // ranges tried: 1, 0.95, ... of the largest weight
constexpr float kStep = 1.0f / 20;
constexpr std::int64_t kRows = 64;  // output rows of one task

// One group of inputs in many rows.
class GroupClip {
 public:
  GroupClip(const formats::Format& format, const std::vector<float>& hessian, std::int64_t k,
            std::int64_t begin, std::int64_t width)
      : format_(format), width_(static_cast<std::size_t>(width)), hessian_(width_ * width_) {
    for (std::int64_t i = 0; i < width; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const float value = hessian[static_cast<std::size_t>((begin + i) * k + begin + j)];
        hessian_[static_cast<std::size_t>(i * width + j)] = value;
        hessian_[static_cast<std::size_t>(j * width + i)] = value;
      }
    }
  }

  void clip(std::span<float> weights) const {
    float largest = 0;
    for (const float w : weights) {
      largest = std::max(largest, std::fabs(w));
    }
    std::vector<float> errors(kSteps * width_);
    for (int step = 0; step < kSteps; ++step) {
      round_clipped(weights, range(largest, step),
                    std::span(errors).subspan(static_cast<std::size_t>(step) * width_, width_));
    }
    const float limit = range(largest, best_step(errors));
    for (float& w : weights) {
      w = std::clamp(w, -limit, limit);
    }
  }

 private:
  static float range(float largest, int step) {
    return largest * (1.0f - kStep * static_cast<float>(step));
  }

  void round_clipped(std::span<const float> weights, float limit, std::span<float> error) const {
    std::transform(weights.begin(), weights.end(), error.begin(),
                   [&](float w) { return std::clamp(w, -limit, limit); });
    const formats::GroupParameters parameters = format_.fit(error);
    for (std::size_t i = 0; i < error.size(); ++i) {
      error[i] = weights[i] - format_.decode(format_.encode(error[i], parameters), parameters);
    }
  }

  // Of the widest range when several are equal.
  int best_step(const std::vector<float>& errors) const {
    std::vector<float> products(errors.size());
    const auto width = static_cast<int>(width_);
    ops::cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSteps, width, width, 1.0f,
                           errors.data(), width, hessian_.data(), width, 0.0f, products.data(),
                           width);
    int best = 0;
    double least = 0;
    for (int step = 0; step < kSteps; ++step) {
      double sum = 0;
      for (std::size_t i = 0; i < width_; ++i) {
        const std::size_t at = static_cast<std::size_t>(step) * width_ + i;
        sum += static_cast<double>(errors[at]) * static_cast<double>(products[at]);
      }
      if (step == 0 || sum < least) {
        best = step;
        least = sum;
      }
    }
    return best;
  }

  const formats::Format& format_;
  std::size_t width_;
  std::vector<float> hessian_;  // [width, width]
};

}  // namespace

void clip_groups(LayerWork& layer, const std::vector<float>& hessian, core::ThreadPool& pool) {
  const RowFormats formats(layer.scheme, empty_parameters(layer.weights, layer.scheme));
  const std::int64_t k = layer.k();
  const std::int64_t group = formats::group_size(layer.scheme, k);
  for (std::int64_t begin = 0; begin < k; begin += group) {
    const std::int64_t width = std::min(group, k - begin);
    const GroupClip clip(formats.of(0), hessian, k, begin, width);
    pool.parallel_for(layer.n(), kRows, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        clip.clip({layer.weights.data() + row * k + begin, static_cast<std::size_t>(width)});
      }
    });
  }
}

void clip_set(SetWork& set, const Backend& backend) {
  if (awq_runs_on_gpu(set, backend)) {
    cuda::clip_set(backend.gpu(), set);
    return;
  }
  for (LayerWork& layer : set.layers) {
    if (!layer.is_dense()) {
      clip_groups(layer, set.statistics->hessian(), backend.pool());
    }
  }
}

}  // namespace nibble::compress
