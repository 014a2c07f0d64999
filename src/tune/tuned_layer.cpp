#include "tune/tuned_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compress/coding/coded_weight.h"
#include "formats/block_sparse.h"
#include "ops/cpu/dense/blas.h"
#include "tune/block_layers.h"

namespace nibble::tune {
namespace {

constexpr std::int64_t kRows = 16;    // of one task
constexpr std::int64_t kPanel = 128;  // rows of a weight gradient of one task

// A weight starts at most so many steps from the value of its code: half a step away it would have
// another.
constexpr float kReach = 0.45f;

Parameter* add(Parameters& parameters, std::string name, std::vector<float> values, float rate) {
  parameters.push_back(std::make_unique<Parameter>(std::move(name), std::move(values), rate));
  return parameters.back().get();
}

}  // namespace

LayerRates layer_rates(const StageOptions& stage) {
  return {static_cast<float>(stage.scale_rate), static_cast<float>(stage.zero_rate),
          static_cast<float>(stage.code_rate)};
}

TunedLayer::TunedLayer(ops::Linear& layer, Trained trained, const LayerRates& rates,
                       const std::vector<float>& original, Parameters& parameters,
                       core::ThreadPool& pool)
    : name_(layer.name), weight_(&layer.weight) {
  const formats::Scheme scheme = layer.weight.scheme;
  require_trainable(scheme);
  const bool has_scales = has_trained_scales(scheme);
  core::require(has_scales || trained == Trained::kWeights, core::ErrorKind::kFailed,
                "layer {} in {} has no scales to be trained", name_, scheme);
  const std::int64_t n = layer.weight.n;
  const std::int64_t k = layer.weight.k;
  compress::CodedWeight coded = coded_of(layer.weight);
  scales_ = std::make_unique<GroupScales>(scheme, n, k, coded.parameters.groups);
  codes_ = std::move(coded.codes);
  if (has_scales) {
    add_scales(parameters, rates);
  }
  if (trained == Trained::kCodes || trained == Trained::kCodesAlone) {
    places_ = add(parameters, name_ + ".codes", {codes_.begin(), codes_.end()}, rates.codes);
  }
  if (trained == Trained::kScalesAlone || trained == Trained::kCodesAlone) {
    codes_ = std::vector<std::uint8_t>();
    return;
  }
  if (has_scales) {
    values_ = core::Tensor::zeros(core::DType::kF32, {n, k});
    decode_codes(pool);
  } else {
    values_ = core::from_float32(decoded(layer.weight), {n, k}, core::DType::kF32);
  }
  if (trained == Trained::kWeights) {
    weights_ = add(parameters, name_ + ".weight", {values().begin(), values().end()}, 1.0f);
    if (has_scales && !original.empty()) {
      start_at(original, pool);
    }
    codes_ = std::vector<std::uint8_t>();
  }
  layer.weight = formats::dense_weight(values_);
}

void TunedLayer::add_scales(Parameters& parameters, const LayerRates& rates) {
  logarithms_ = add(parameters, name_ + ".log_scales", scales_->logarithms(), rates.scales);
  fixed_zeros_ = scales_->zeros();
  if (rates.zeros > 0 && !fixed_zeros_.empty()) {
    zeros_ = add(parameters, name_ + ".zeros", std::move(fixed_zeros_), rates.zeros);
    fixed_zeros_.clear();
  }
}

void TunedLayer::start_at(const std::vector<float>& original, core::ThreadPool& pool) {
  const TrainedWeight now = trained();
  pool.parallel_for(scales_->n(), kRows, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first * scales_->groups(); at < last * scales_->groups(); ++at) {
      const compress::GroupRange range = scales_->range(at % scales_->groups());
      const float reach = kReach * std::abs(scales_->stored(at, now.logarithms, now.zeros).scale);
      const std::int64_t begin = at / scales_->groups() * scales_->k() + range.begin;
      for (std::int64_t i = begin; i < begin + range.width; ++i) {
        float& weight = weights_->values[static_cast<std::size_t>(i)];
        weight = std::clamp(original[static_cast<std::size_t>(i)], weight - reach, weight + reach);
      }
    }
  });
}

TrainedWeight TunedLayer::trained() const {
  TrainedWeight result;
  result.weights =
      weights_ != nullptr ? std::span<const float>(weights_->values) : std::span<const float>();
  result.logarithms = logarithms_ != nullptr ? std::span<const float>(logarithms_->values)
                                             : std::span<const float>();
  result.zeros = zeros_ != nullptr ? std::span<const float>(zeros_->values)
                                   : std::span<const float>(fixed_zeros_);
  return result;
}

void TunedLayer::add_to(ops::gradient::ParameterGradients& gradients) const {
  gradients.add(*weight_, weights_ != nullptr ? weights_->gradient : places_->gradient);
}

void TunedLayer::pass_back(core::ThreadPool& pool) {
  if (places_ != nullptr) {
    return pass_back_to_places(pool);
  }
  const auto gradient_of = [](Parameter* parameter) {
    return parameter != nullptr ? std::span(parameter->gradient) : std::span<float>();
  };
  fake_quantize_back(*scales_, trained(),
                     {weights_->gradient, gradient_of(logarithms_), gradient_of(zeros_)}, pool);
}

void TunedLayer::pass_back_to_places(core::ThreadPool& pool) {
  const TrainedWeight now = trained();
  pool.parallel_for(scales_->n(), kRows, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first * scales_->groups(); at < last * scales_->groups(); ++at) {
      const compress::GroupRange range = scales_->range(at % scales_->groups());
      const std::int64_t begin = at / scales_->groups() * scales_->k() + range.begin;
      float* const gradient = places_->gradient.data() + begin;
      if (!scales_->keeps(at)) {
        std::fill_n(gradient, range.width, 0.0f);
        continue;
      }
      add_group_gradient(at, gradient, values_.data<float>().data() + begin);
      const float scale = scales_->stored(at, now.logarithms, now.zeros).scale;
      for (std::int64_t i = 0; i < range.width; ++i) {
        const auto place = static_cast<std::size_t>(begin + i);
        const bool clipped =
            std::nearbyint(places_->values[place]) != static_cast<float>(codes_[place]);
        gradient[i] = clipped ? 0.0f : gradient[i] * scale;
      }
    }
  });
}

// With the gradient P at the values s q of a group, that at log s is s q P and that at a zero -s P,
// each summed over the group.
void TunedLayer::add_group_gradient(std::int64_t at, const float* gradient, const float* values) {
  const TrainedWeight now = trained();
  const std::int64_t width = scales_->range(at % scales_->groups()).width;
  const formats::GroupParameters stored = scales_->stored(at, now.logarithms, now.zeros);
  const auto i = static_cast<std::size_t>(at);
  const double magnitude = std::exp(static_cast<double>(now.logarithms[i]));
  logarithms_->gradient[i] +=
      static_cast<float>(magnitude / std::abs(static_cast<double>(stored.scale)) *
                         std::inner_product(gradient, gradient + width, values, 0.0));
  if (zeros_ != nullptr) {
    zeros_->gradient[i] -=
        stored.scale * static_cast<float>(std::accumulate(gradient, gradient + width, 0.0));
  }
}

// The gradient at the values is dy^T x.
void TunedLayer::add_scale_gradients(const float* x, const float* dy, std::int64_t m,
                                     std::int64_t ld, core::ThreadPool& pool) {
  const std::int64_t n = scales_->n();
  const std::int64_t k = scales_->k();
  const auto weights = values_.data<float>();
  pool.parallel_for((n + kPanel - 1) / kPanel, 1, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> product;
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kPanel;
      const std::int64_t rows = std::min(kPanel, n - first);
      product.resize(static_cast<std::size_t>(rows * k));
      ops::cpu::blas().sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(rows),
                             static_cast<int>(k), static_cast<int>(m), 1.0f, dy + first,
                             static_cast<int>(ld), x, static_cast<int>(k), 0.0f, product.data(),
                             static_cast<int>(k));
      for (std::int64_t at = first * scales_->groups(); at < (first + rows) * scales_->groups();
           ++at) {
        if (!scales_->keeps(at)) {
          continue;
        }
        const compress::GroupRange range = scales_->range(at % scales_->groups());
        const std::int64_t row = at / scales_->groups();
        add_group_gradient(at, product.data() + (row - first) * k + range.begin,
                           weights.data() + row * k + range.begin);
      }
    }
  });
}

std::vector<std::uint8_t> TunedLayer::rounded_places() const {
  const auto last = static_cast<float>((1 << scales_->scheme().code.bits) - 1);
  std::vector<std::uint8_t> codes(places_->values.size());
  std::transform(places_->values.begin(), places_->values.end(), codes.begin(), [&](float place) {
    return static_cast<std::uint8_t>(std::clamp(std::nearbyint(place), 0.0f, last));
  });
  return codes;
}

void TunedLayer::decode_codes(core::ThreadPool& pool) {
  const TrainedWeight now = trained();
  const auto to = values();
  pool.parallel_for(scales_->n(), kRows, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first * scales_->groups(); at < last * scales_->groups(); ++at) {
      if (!scales_->keeps(at)) {
        continue;  // zeros
      }
      const compress::GroupRange range = scales_->range(at % scales_->groups());
      const auto begin =
          static_cast<std::size_t>(at / scales_->groups() * scales_->k() + range.begin);
      const auto width = static_cast<std::size_t>(range.width);
      scales_->format().decode_group(std::span(codes_).subspan(begin, width),
                                     scales_->stored(at, now.logarithms, now.zeros),
                                     to.subspan(begin, width));
    }
  });
}

void TunedLayer::update(core::ThreadPool& pool) {
  if (weights_ != nullptr) {
    fake_quantize(*scales_, trained(), values(), pool);
    return;
  }
  if (places_ != nullptr) {
    codes_ = rounded_places();
  }
  decode_codes(pool);
}

// Groups of floats that became 0 are not stored.
formats::PackedWeight TunedLayer::packed_floats(core::ThreadPool& pool) const {
  std::vector<float> values(weights_->values.size());
  fake_quantize(*scales_, trained(), values, pool);
  const formats::Scheme& scheme = scales_->scheme();
  return formats::to_block_sparse(formats::dense_weight(core::from_float32(
                                      values, {scales_->n(), scales_->k()}, scheme.code.dense)),
                                  scheme);
}

formats::PackedWeight TunedLayer::packed(core::ThreadPool& pool) const {
  if (!has_trained_scales(scales_->scheme())) {
    return packed_floats(pool);
  }
  const TrainedWeight now = trained();
  compress::CodedWeight result;
  if (weights_ != nullptr) {
    result = coded(*scales_, now, pool);
  } else {
    result.codes = places_ != nullptr ? rounded_places() : codes_.empty() ? codes() : codes_;
    for (std::int64_t at = 0; at < scales_->count(); ++at) {
      result.parameters.groups.push_back(scales_->stored(at, now.logarithms, now.zeros));
    }
  }
  return compress::pack(result, scales_->n(), scales_->k(), scales_->scheme(), pool);
}

}  // namespace nibble::tune
