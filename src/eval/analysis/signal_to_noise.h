#pragma once

#include <span>

namespace nibble::eval {

/// How far a model's values are from those of the model that it stands for.
class SignalToNoise {
 public:
  /// As many `values` as there are in `reference`.
  void add(std::span<const float> reference, std::span<const float> values);

  /// 10 log10(sum reference^2 / sum (reference - value)^2): 20 dB are an error of a tenth. Infinity
  /// where all values are equal, NaN before there are any.
  double decibels() const;

 private:
  double signal_ = 0;
  double noise_ = 0;
};

}  // namespace nibble::eval
