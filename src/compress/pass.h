#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compress/arithmetic.h"
#include "compress/block_work.h"
#include "compress/model_transform.h"
#include "core/json.h"
#include "formats/packed_weight.h"
#include "ops/layers.h"

namespace nibble::compress {

/// What a pass does to its layers. A recipe goes through the stages in this order; exactly one of
/// its passes rounds.
enum class Stage {
  kTransformsModel,    // gives a ModelTransform; at most one pass of a recipe
  kTransforms,         // changes LayerWork::weights: scales, clipping
  kCorrects,           // changes LayerWork::target and weights for the inputs as they have become
  kPrunes,             // sets LayerWork::kept
  kChoosesParameters,  // sets LayerWork::parameters
  kRounds,             // sets LayerWork::packed
  kRefines,            // changes LayerWork::packed (and sets LayerWork::kept, when it prunes)
};

/// One step of a compression method. A recipe is an ordered list of passes; each of them goes over
/// all layers of a block before the next one starts.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual Stage stage() const = 0;
  virtual bool learns_books() const { return false; }
  virtual bool prunes() const { return false; }

  /// Whether the pass puts the inputs into the order of LayerWork::permutation.
  virtual bool reorders_inputs() const { return false; }

  /// Whether the pass can serve weights with a tail, or comes before they have one.
  virtual bool takes_tails() const { return false; }

  /// What a layer with k inputs has in place of the recipe's scheme.
  virtual formats::Scheme scheme_for(const formats::Scheme& scheme, std::int64_t) const {
    return scheme;
  }

  /// Whether the pass brings the weights to where the scheme's Hadamard has turned the inputs. It
  /// is the last that transforms.
  virtual bool turns_inputs() const { return false; }

  /// Whether the pass can serve weights that stay dense: F32, F16, BF16.
  virtual bool takes_dense() const { return false; }

  /// Whether the pass has a part in an output layer with this scheme; where it has none it is left
  /// out there.
  virtual bool serves_output(const formats::Scheme&) const { return true; }

  /// Throws kUsage for a scheme that the pass can't serve.
  virtual void check(const formats::Scheme&) const {}

  /// What the pass makes of the whole model before its blocks are compressed, or null. Throws
  /// kUsage for models that it can't serve.
  virtual std::unique_ptr<ModelTransform> transform(const models::NetworkConfig&) const {
    return nullptr;
  }

  virtual StatisticsKind needs() const { return StatisticsKind::kNone; }

  /// Whether the pass reads LayerWork::curvature. When any pass of a recipe does, Hessians are
  /// weighted by SetCurvature::token_weights too.
  virtual bool needs_curvature() const { return false; }

  /// What the pass's time goes into, where that may run on a GPU.
  virtual std::optional<Task> task() const { return std::nullopt; }

  /// `work` is one set of layers that share an input; sets come in the order in which they run.
  virtual void apply(SetWork& work, Arithmetic& arithmetic) const = 0;
};

/// How a pass is made from the options that a recipe gives it.
struct PassFactory {
  std::string_view name;  // as in recipes
  std::unique_ptr<Pass> (*make)(const core::Json& options);
};

/// Every pass of this build; the one registration place is all.cpp.
std::vector<PassFactory> pass_factories();

/// Throws kUsage for a name that is not built.
std::unique_ptr<Pass> make_pass(std::string_view name, const core::Json& options);

}  // namespace nibble::compress
