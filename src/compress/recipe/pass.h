#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compress/backend/backend.h"
#include "compress/block/block_work.h"
#include "compress/recipe/model_transform.h"
#include "compress/recipe/pass_options.h"
#include "core/json_type.h"
#include "formats/packed_weight.h"
#include "ops/layers.h"

namespace nibble::compress {

/// What a pass does to its layers. A recipe goes through the stages in this order; exactly one of
/// its passes rounds.
enum class Stage {
  kRemovesBlocks,      // says how many blocks go; at most one pass of a recipe
  kTransformsModel,    // gives a ModelTransform; at most one pass of a recipe
  kTransforms,         // changes LayerWork::weights: scales, clipping
  kCorrects,           // changes LayerWork::target and weights for the inputs as they have become
  kPrunes,             // sets LayerWork::kept
  kChoosesParameters,  // sets LayerWork::parameters
  kRounds,             // sets LayerWork::packed
  kRefines,            // changes LayerWork::packed (and sets LayerWork::kept, when it prunes)
};

/// What a pass is: the rules of recipes and the pipeline go by it.
struct PassTraits {
  Stage stage = Stage::kTransforms;
  StatisticsKind statistics = StatisticsKind::kNone;  // of the layers' inputs, which it reads
  bool needs_curvature = false;  // reads LayerWork::curvature; when any pass of a recipe does,
                                 // Hessians are weighted by SetCurvature::token_weights too
  bool learns_books = false;
  bool prunes = false;
  bool reorders_inputs = false;    // puts the inputs into the order of LayerWork::permutation
  bool fits_input_scales = false;  // gives rounded weights the stored scale of their inputs;
                                   // nothing may change them behind it
  bool reads_magnitudes = false;   // reads InputStatistics::magnitudes()
  bool turns_inputs = false;  // brings the weights to where the scheme's Hadamard has turned the
                              // inputs; it is the last that transforms
  bool takes_tails = false;   // can serve weights with a tail, or comes before they have one
  bool takes_dense = false;   // can serve weights that stay dense: F32, F16, BF16
  bool takes_float_rows = false;  // can serve block-sparse rows of floats
};

/// One step of a compression method. A recipe is an ordered list of passes; each of them goes over
/// all layers of a block before the next one starts.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual PassTraits traits() const = 0;

  /// What a layer with k inputs has in place of the recipe's scheme.
  virtual formats::Scheme scheme_for(const formats::Scheme& scheme, std::int64_t) const {
    return scheme;
  }

  /// Whether the pass has a part in an output layer with this scheme; where it has none it is left
  /// out there.
  virtual bool serves_output(const formats::Scheme&) const { return true; }

  /// Throws kUsage for a scheme that the pass can't serve.
  virtual void check(const formats::Scheme&) const {}

  /// How many blocks the model loses before all else.
  virtual std::int64_t removed_blocks() const { return 0; }

  /// What the pass makes of the whole model before its blocks are compressed, or null. Throws
  /// kUsage for models that it can't serve.
  virtual std::unique_ptr<ModelTransform> transform(const models::Network&) const {
    return nullptr;
  }

  /// Whether a GPU does what the pass's time goes into for layers of the scheme.
  virtual bool runs_on_gpu(const formats::Scheme&) const { return false; }

  /// `work` is one set of layers that share an input; sets come in the order in which they run.
  virtual void apply(SetWork& work, const Backend& backend) const = 0;
};

/// How a pass is made from the options that a recipe gives it.
struct PassFactory {
  std::string_view name;  // as in recipes
  std::unique_ptr<Pass> (*read)(PassOptions& options);

  /// Throws kUsage for options that are wrong or that the pass does not know.
  std::unique_ptr<Pass> make(const core::Json& options) const;
};

/// A pass of a class that reads its options when it is made.
template <class Made>
std::unique_ptr<Pass> read_pass(PassOptions& options) {
  return std::make_unique<Made>(options);
}

/// Every pass of this build; the one registration place is all.cpp.
std::vector<PassFactory> pass_factories();

/// Throws kUsage for a name that is not built.
std::unique_ptr<Pass> make_pass(std::string_view name, const core::Json& options);

}  // namespace nibble::compress
