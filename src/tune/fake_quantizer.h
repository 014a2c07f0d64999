#pragma once

#include <span>
#include <vector>

#include "compress/coding/coded_weight.h"
#include "core/threads.h"
#include "tune/group_scales.h"

namespace nibble::tune {

/// Trained numbers of a layer: weights [n, k], logarithms of scales and zeros [n, groups]
/// (group_scales.h).
struct TrainedWeight {
  std::span<const float> weights;
  std::span<const float> logarithms;  // empty for floats
  std::span<const float> zeros;       // empty where the scheme has none
};

/// Gradients at the same numbers.
struct WeightGradient {
  std::span<float> weights;
  std::span<float> logarithms;
  std::span<float> zeros;
};

/// values [n, k]: the weights as the packed layer will have them, bit for bit: the codes and values
/// of `formats`. 0 in pruned groups.
void fake_quantize(const GroupScales& scales, const TrainedWeight& trained, std::span<float> values,
                   core::ThreadPool& pool);

/// Passes the gradient at these values back: gradient.weights holds it and becomes that at the
/// weights; those at logarithms and zeros are added. With v = w / s and q = code - zero, straight
/// through the rounding:
///
///                     where round(v) = q        where it was clipped to the first or last code
///   d value / d w            1                                 0
///   d value / d s          q - v                               q
///   d value / d zero         0                                -s
///
/// (LSQ, arXiv 1902.08153, equation 3; with zeros LSQ+, 2004.09576, equations 6 and 7.) Floats are
/// rounded to the type that is stored, and gradients pass straight through that too.
void fake_quantize_back(const GroupScales& scales, const TrainedWeight& trained,
                        const WeightGradient& gradient, core::ThreadPool& pool);

/// Codes and parameters of the values, to be packed; not of floats.
compress::CodedWeight coded(const GroupScales& scales, const TrainedWeight& trained,
                            core::ThreadPool& pool);

}  // namespace nibble::tune
