#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "core/threads.h"
#include "ops/gradient/parameter_gradients.h"
#include "ops/layers.h"
#include "tune/fake_quantizer.h"
#include "tune/parameter.h"
#include "tune/tuning_options.h"

namespace nibble::tune {

/// What of a layer is trained.
enum class Trained {
  kWeights,      // kept weights, scales and zero points
  kCodes,        // where codes stand, scales and zero points
  kScales,       // scales and zero points; the codes stay
  kScalesAlone,  // the same, and something else decodes: the layer stays packed, and has no values
  kCodesAlone,   // the same of kCodes
};

/// Learning rates of what a layer has, as shares of an optimizer's.
struct LayerRates {
  float scales = 1.0f;  // of the logarithm
  float zeros = 0.0f;   // 0: they stay
  float codes = 0.0f;   // of Trained::kCodes, in steps of codes
};

LayerRates layer_rates(const StageOptions& stage);

/// A compressed linear layer that is trained. It puts float32 weights in the place of the packed
/// ones, which a forward pass reads and update() renews: those that the packed layer has.
class TunedLayer {
 public:
  /// `layer` gets the float32 weights (but for those alone); it must not move from here on.
  /// Weights start at the values of their codes; with `original` [n, k], of kWeights, each starts
  /// at the value nearest to the original that has the same code; floats start as they are.
  /// Parameters are added to `parameters`. Throws as require_trainable(), and kFailed for floats
  /// whose weights are not trained.
  TunedLayer(ops::Linear& layer, Trained trained, const LayerRates& rates,
             const std::vector<float>& original, Parameters& parameters, core::ThreadPool& pool);

  const std::string& name() const { return name_; }
  /// What a forward pass reads: float32 values [n, k].
  const formats::PackedWeight& weight() const { return *weight_; }
  /// Of those alone: [n, k], as they are stored.
  std::vector<std::uint8_t> codes() const { return compress::unpack(*weight_).codes; }
  const GroupScales& scales() const { return *scales_; }

  /// The layer's parameters; null where there are none.
  struct Own {
    const Parameter* weights = nullptr;
    const Parameter* places = nullptr;
    const Parameter* logarithms = nullptr;
    const Parameter* zeros = nullptr;
  };
  Own parameters() const { return {weights_, places_, logarithms_, zeros_}; }

  /// With trained weights or codes: where the gradient of the layer's values goes.
  void add_to(ops::gradient::ParameterGradients& gradients) const;

  /// The same: passes that gradient on to them, to scales and to zeros. A code
  /// stands at a real number p, and its value is scale * (round(p) - zero): straight through the
  /// rounding, the gradient at p is scale times that at the value, and 0 where p was clipped.
  void pass_back(core::ThreadPool& pool);

  /// With trained scales: adds to their gradients, and those of zeros, what inputs x [m, k] and
  /// gradients dy [m, n], `ld` floats from row to row, give.
  void add_scale_gradients(const float* x, const float* dy, std::int64_t m, std::int64_t ld,
                           core::ThreadPool& pool);

  /// The float32 weights afresh from the parameters.
  void update(core::ThreadPool& pool);

  /// The layer as the parameters have it.
  formats::PackedWeight packed(core::ThreadPool& pool) const;

 private:
  TrainedWeight trained() const;
  std::span<float> values() { return values_.mutable_data<float>(); }
  void decode_codes(core::ThreadPool& pool);
  formats::PackedWeight packed_floats(core::ThreadPool& pool) const;
  std::vector<std::uint8_t> rounded_places() const;
  void pass_back_to_places(core::ThreadPool& pool);
  void add_group_gradient(std::int64_t at, const float* gradient, const float* values);
  void add_scales(Parameters& parameters, const LayerRates& rates);
  void start_at(const std::vector<float>& original, core::ThreadPool& pool);

  std::string name_;
  const formats::PackedWeight* weight_;  // of the layer: views values_
  core::Tensor values_;                  // [n, k]
  std::unique_ptr<GroupScales> scales_;
  std::vector<std::uint8_t> codes_;  // [n, k], where weights are not trained
  Parameter* weights_ = nullptr;     // where they are trained
  Parameter* places_ = nullptr;      // of codes, where they are trained: [n, k]
  Parameter* logarithms_ = nullptr;  // not of floats
  Parameter* zeros_ = nullptr;       // where the scheme has zeros and they are trained
  std::vector<float> fixed_zeros_;   // where they are not
};

}  // namespace nibble::tune
