#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compress/calibration/output_curvature.h"
#include "compress/calibration/statistics.h"
#include "compress/coding/coded_weight.h"
#include "formats/packed_weight.h"
#include "models/network.h"

namespace nibble::compress {

/// One linear layer on its way through the passes.
struct LayerWork {
  const ops::Linear* layer = nullptr;           // as the model has it
  std::vector<float> target;                    // [n, k]: the original under exact transformations
  std::vector<float> weights;                   // [n, k]: what is rounded; starts as the target
  std::vector<float> bias;                      // [n] or empty; changes when outputs are scaled
  std::vector<std::uint8_t> kept;               // [n, k]: 0 where a weight was pruned: it is 0 in
                                                // `weights` and stays exactly 0; empty: none was
  std::vector<std::int32_t> permutation;        // [k] or empty: column i of target and weights is
                                                // input permutation[i] of the layer
  formats::Scheme scheme;                       // what the recipe asks for
  std::optional<Parameters> parameters;         // set by passes that choose them; else each is
                                                // Format::fit of its group
  std::optional<formats::PackedWeight> packed;  // set by the pass that rounds
  OutputCurvature* curvature = nullptr;         // of its outputs; null when no pass needs it
  std::string note;                             // what the user should know ("damp 0.1", ...)
  std::int64_t n() const { return layer->weight.n; }
  std::int64_t k() const { return layer->weight.k; }
  bool is_dense() const { return !formats::has_codes(scheme); }
};

/// A dense layer's weights in the type of its scheme. Throws kInvalidModel when one is not finite
/// or too large for it.
formats::PackedWeight round_dense(const LayerWork& layer);

/// What makes the input of a set, when that can be scaled channel by channel without changing what
/// the model computes: the norm before it, or rows of a linear layer that reach it unmixed (values
/// through attention, `up` through the gate, anything through ReLU). One scale may serve several
/// channels: query heads that share a value head. In post-norm blocks attention and MLP read the
/// residual stream itself, whose scales reach all that comes behind it: it cannot be scaled. Nor
/// can the states of an encoder, which all blocks of its decoder read.
struct InputSource {
  ops::Norm* norm = nullptr;
  LayerWork* layer = nullptr;
  std::int64_t first_row = 0;          // of `layer`
  std::vector<std::int32_t> scale_of;  // [k]: which scale an input channel has
  std::int64_t scales = 0;             // 0: the input cannot be scaled
  std::string_view why_not = {};       // what is read, where that is the reason
};

/// The layers that share one input.
struct SetWork {
  int id = -1;  // of the ops::LinearSet
  std::vector<LayerWork> layers;
  InputSource source;
  InputStatistics* statistics = nullptr;  // null when no pass needs any
};

/// The set on its way through the passes; nothing when `schemes`, by layer prefix, leave a layer of
/// it alone (routers). `curvature` by set id, may be empty. The result points into both.
std::optional<SetWork> make_set_work(const ops::LinearSet& set,
                                     const std::map<std::string, formats::Scheme>& schemes,
                                     std::map<int, SetCurvature>& curvature);

/// A block on its way through the passes: float32 copies of everything that they may
/// change. Sets whose scheme leaves them alone (routers) are absent.
class BlockWork {
 public:
  /// `norms` as in its stack; `schemes` by layer prefix; `curvature` by set id, may be empty.
  BlockWork(const models::NetworkConfig& config, models::NormPlacement norms,
            const models::Block& block, const std::map<std::string, formats::Scheme>& schemes,
            std::map<int, SetCurvature>& curvature);
  BlockWork(const BlockWork&) = delete;
  BlockWork& operator=(const BlockWork&) = delete;

  std::vector<SetWork>& sets() { return sets_; }
  const std::vector<SetWork>& sets() const { return sets_; }

  /// Gives every set its statistics, by set id; sets that are not there keep what they have.
  void use(std::map<int, InputStatistics>& statistics);
  const ops::Norm& attention_norm() const { return attention_norm_; }
  const ops::Norm& mlp_norm() const { return mlp_norm_; }
  /// Of attention to an encoder, where there is any.
  const std::optional<ops::Norm>& cross_norm() const { return cross_norm_; }

 private:
  SetWork* find(const ops::LinearSet& set);
  void link(const models::NetworkConfig& config, models::NormPlacement norms,
            const models::Block& block);
  void link_cross(models::NormPlacement norms, const models::CrossAttention& cross);
  void link_values(const ops::LinearSet& from, const ops::AttentionSpec& spec,
                   const ops::LinearSet& out);

  ops::Norm attention_norm_;
  ops::Norm mlp_norm_;
  std::optional<ops::Norm> cross_norm_;
  std::vector<SetWork> sets_;
};

/// Target and weights behind a transform of the layer's inputs: each row is transformed like an
/// input, so that products stay what they were.
void transform_inputs(LayerWork& layer, const ops::InputTransform& transform,
                      core::ThreadPool& pool);

/// Says so at layers that keep their inputs because of what they read (InputSource::why_not).
void note_unscaled(SetWork& set);

/// Multiplies input column j of every layer of the set by s[scale_of[j]], divides the source's
/// channel by it, and brings the statistics along: y = (x / s) (W diag(s))^T, the same in real
/// numbers (SmoothQuant, arXiv 2211.10438, equation 3). `s` has source.scales positive values.
void scale_inputs(SetWork& set, std::span<const float> s);

}  // namespace nibble::compress
