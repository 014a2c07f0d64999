#include "compress/search/weighted_group.h"

#include <algorithm>
#include <array>

#include "core/vector_level.h"

namespace nibble::compress {
namespace {

constexpr int kSums = 8;

double total(const std::array<double, kSums>& sums) {
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// Vectors of float64, of which kVectors make kSums numbers.
template <int kVectorBytes>
struct Vectors {
  static constexpr int kLanes = kVectorBytes / sizeof(double);
  static constexpr int kVectors = kSums / kLanes;
  using Doubles = typename core::VectorOf<double, kLanes>::Type;
  using Floats = typename core::VectorOf<float, kLanes>::Type;

  template <typename T, typename Vector>
  static NIBBLE_INLINE void load(const T* from, Vector& to) {
    __builtin_memcpy(&to, from, sizeof(to));
  }

  // Elements with their values, or codes.
  struct Points {
    Doubles h;
    Doubles w;
    Doubles value;

    NIBBLE_INLINE Points(const double* weights, const double* importance, const float* values) {
      Floats floats;
      load(importance, h);
      load(weights, w);
      load(values, floats);
      value = __builtin_convertvector(floats, Doubles);
    }
  };

  // Partial sums.
  struct Sums {
    Doubles part[kVectors] = {};

    NIBBLE_INLINE double sum() const {
      using Half = typename core::VectorOf<double, kSums / 2>::Type;
      Half halves[2];
      __builtin_memcpy(halves, part, sizeof(part));
      const Half sums = halves[0] + halves[1];
      return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  };

  // step(i, v): of the elements from i on, whose partial sums are in part[v].
  template <typename Step>
  static NIBBLE_INLINE void for_each(std::size_t count, Step step) {
    for (std::size_t i = 0; i < count; i += kSums) {
      for (int v = 0; v < kVectors; ++v) {
        step(i + static_cast<std::size_t>(v * kLanes), v);
      }
    }
  }
};

struct SquaredError {
  template <int kVectorBytes>
  static NIBBLE_INLINE double run(const double* weights, const double* importance,
                                  const float* values, std::size_t count) {
    using V = Vectors<kVectorBytes>;
    typename V::Sums errors;
    V::for_each(
        count, [&](std::size_t i, int v) __attribute__((always_inline)) {
          const typename V::Points at(weights + i, importance + i, values + i);
          const auto error = at.w - at.value;
          errors.part[v] += at.h * error * error;
        });
    return errors.sum();
  }
};

// How weights are rounded: to the level that is multiplied with the scale, the code, and the value.
struct ToSteps {
  formats::GroupParameters parameters;
  formats::StepCodes codes;

  NIBBLE_INLINE float zero() const { return static_cast<float>(parameters.zero); }

  template <typename Floats>
  NIBBLE_INLINE void round(const Floats& weights, Floats& level, Floats& value) const {
    level = weights;
    formats::round_steps(level, parameters.scale, parameters.minimum,
                         static_cast<float>(codes.first - parameters.zero),
                         static_cast<float>(codes.last - parameters.zero));
    value = level * parameters.scale + parameters.minimum;
  }
};

struct ToBook {
  float scale = 1;
  std::array<float, formats::BookOrder::kSize> values;
  formats::BookOrder::Limits limits{};

  NIBBLE_INLINE ToBook(float any_scale, const formats::BookOrder& order)
      : scale(any_scale), values(order.values()) {
    order.limits(scale < 0 ? -scale : scale, limits);
  }

  NIBBLE_INLINE float zero() const { return 0; }

  template <typename Floats>
  NIBBLE_INLINE void round(const Floats& weights, Floats& level, Floats& value) const {
    const Floats upright = weights * (scale < 0 ? -1.0f : 1.0f);
    level = Floats{} + values[0];
    for (std::size_t i = 1; i < values.size(); ++i) {
      level = upright > limits[i - 1] ? Floats{} + values[i] : level;
    }
    value = level * scale;
  }
};

// Of a group.
struct Arrays {
  const float* floats = nullptr;
  const double* weights = nullptr;
  const double* importance = nullptr;
  const double* products = nullptr;
  std::size_t count = 0;
};

template <typename V, WeightedGroup::Fit kFit, typename Rounding>
NIBBLE_INLINE void round_group(const Arrays& group, const Rounding& rounding, float* codes,
                               WeightedGroup::Rounded& rounded) {
  const float zero = rounding.zero();
  typename V::Sums errors;
  typename V::Sums cross;
  typename V::Sums sums;  // of codes, or of squares
  V::for_each(
      group.count, [&](std::size_t i, int v) __attribute__((always_inline)) {
        typename V::Floats floats;
        typename V::Floats level;
        typename V::Floats value;
        V::load(group.floats + i, floats);
        rounding.round(floats, level, value);
        const typename V::Floats code = level + zero;
        __builtin_memcpy(codes + i, &code, sizeof(code));
        typename V::Doubles h;
        typename V::Doubles w;
        typename V::Doubles hw;
        V::load(group.importance + i, h);
        V::load(group.weights + i, w);
        V::load(group.products + i, hw);
        const auto error = w - __builtin_convertvector(value, typename V::Doubles);
        const auto wide = __builtin_convertvector(level, typename V::Doubles);
        errors.part[v] += h * error * error;
        cross.part[v] += hw * wide;
        if constexpr (kFit == WeightedGroup::Fit::kLine) {
          sums.part[v] += h * (wide + static_cast<double>(zero));
        } else {
          sums.part[v] += h * wide * wide;
        }
      });
  rounded = {errors.sum(), cross.sum(), sums.sum()};
}

template <WeightedGroup::Fit kFit>
struct RoundToSteps {
  template <int kVectorBytes>
  static NIBBLE_INLINE void run(const Arrays& group, const formats::GroupParameters& parameters,
                                formats::StepCodes step_codes, float* codes,
                                WeightedGroup::Rounded& rounded) {
    round_group<Vectors<kVectorBytes>, kFit>(group, ToSteps{parameters, step_codes}, codes,
                                             rounded);
  }
};

struct RoundToBook {
  template <int kVectorBytes>
  static NIBBLE_INLINE void run(const Arrays& group, float scale, const formats::BookOrder& order,
                                float* codes, WeightedGroup::Rounded& rounded) {
    round_group<Vectors<kVectorBytes>, WeightedGroup::Fit::kScale>(group, ToBook(scale, order),
                                                                   codes, rounded);
  }
};

struct LineSums {
  // Of `line` the means are given.
  template <int kVectorBytes>
  static NIBBLE_INLINE void run(const double* weights, const double* importance, const float* codes,
                                std::size_t count, WeightedGroup::Line& line) {
    using V = Vectors<kVectorBytes>;
    const double mean_code = line.code;
    const double mean_weight = line.weight;
    typename V::Sums variance;
    typename V::Sums covariance;
    V::for_each(
        count, [&](std::size_t i, int v) __attribute__((always_inline)) {
          typename V::Points at(weights + i, importance + i, codes + i);
          at.value -= mean_code;
          variance.part[v] += at.h * at.value * at.value;
          covariance.part[v] += at.h * at.value * (at.w - mean_weight);
        });
    line.variance = variance.sum();
    line.covariance = covariance.sum();
  }
};

struct ScaleSums {
  template <int kVectorBytes>
  static NIBBLE_INLINE void run(const double* weights, const double* importance,
                                const float* values, std::size_t count, double zero, double minimum,
                                WeightedGroup::Scale& scale) {
    using V = Vectors<kVectorBytes>;
    typename V::Sums cross;
    typename V::Sums square;
    V::for_each(
        count, [&](std::size_t i, int v) __attribute__((always_inline)) {
          typename V::Points at(weights + i, importance + i, values + i);
          at.value -= zero;
          cross.part[v] += at.h * (at.w - minimum) * at.value;
          square.part[v] += at.h * at.value * at.value;
        });
    scale = {cross.sum(), square.sum()};
  }
};

}  // namespace

void WeightedGroup::assign(std::span<const float> weights, std::span<const float> importance) {
  const std::size_t padded = (weights.size() + kSums - 1) / kSums * kSums;
  floats_.assign(padded, 0);
  weights_.assign(padded, 0);
  importance_.assign(padded, 0);
  products_.assign(padded, 0);
  std::array<double, kSums> importances{};
  std::array<double, kSums> products{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    floats_[i] = weights[i];
    weights_[i] = weights[i];
    importance_[i] = importance[i];
    products_[i] = importance_[i] * weights_[i];
    importances[i % kSums] += importance_[i];
    products[i % kSums] += products_[i];
  }
  total_ = total(importances);
  mean_ = total(products) / total_;
}

double WeightedGroup::squared_error(std::span<const float> values) const {
  return core::VectorVersions<SquaredError>::at(level_)(weights_.data(), importance_.data(),
                                                        values.data(), padded());
}

WeightedGroup::Rounded WeightedGroup::round(const formats::GroupParameters& parameters,
                                            formats::StepCodes step_codes, Fit fit,
                                            std::span<float> codes) const {
  const Arrays arrays{floats_.data(), weights_.data(), importance_.data(), products_.data(),
                      padded()};
  Rounded rounded;
  if (fit == Fit::kLine) {
    core::VectorVersions<RoundToSteps<Fit::kLine>>::at(level_)(arrays, parameters, step_codes,
                                                               codes.data(), rounded);
  } else {
    core::VectorVersions<RoundToSteps<Fit::kScale>>::at(level_)(arrays, parameters, step_codes,
                                                                codes.data(), rounded);
  }
  return rounded;
}

WeightedGroup::Rounded WeightedGroup::round(const formats::GroupParameters& parameters,
                                            const formats::BookOrder& order,
                                            std::span<float> codes) const {
  Rounded rounded;
  core::VectorVersions<RoundToBook>::at(level_)(
      {floats_.data(), weights_.data(), importance_.data(), products_.data(), padded()},
      parameters.scale, order, codes.data(), rounded);
  return rounded;
}

WeightedGroup::Line WeightedGroup::line(std::span<const float> codes,
                                        const Rounded& rounded) const {
  Line line{rounded.sum / total_, mean_, 0, 0};
  core::VectorVersions<LineSums>::at(level_)(weights_.data(), importance_.data(), codes.data(),
                                             padded(), line);
  return line;
}

WeightedGroup::Scale WeightedGroup::scale(std::span<const float> values, int zero,
                                          float minimum) const {
  Scale scale;
  core::VectorVersions<ScaleSums>::at(level_)(weights_.data(), importance_.data(), values.data(),
                                              padded(), zero, minimum, scale);
  return scale;
}

}  // namespace nibble::compress
