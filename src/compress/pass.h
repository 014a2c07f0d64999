#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compress/coded_weight.h"
#include "compress/statistics.h"
#include "core/json.h"
#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/layers.h"

namespace nibble::compress {

/// One linear layer on its way through the passes.
struct LayerWork {
  const ops::Linear* layer = nullptr;
  std::vector<float> weights;                   // [n, k], not rounded
  formats::Scheme scheme;                       // what the recipe asks for
  std::optional<Parameters> parameters;         // set by passes that choose them; else each is
                                                // Format::fit of its group
  std::optional<formats::PackedWeight> packed;  // set by the pass that rounds
  std::string note;                             // what the user should know ("damp 0.1", ...)
  std::int64_t n() const { return layer->weight.n; }
  std::int64_t k() const { return layer->weight.k; }
};

/// The layers that share one input.
struct SetWork {
  std::vector<LayerWork> layers;
  const InputStatistics* statistics = nullptr;  // null when no pass needs any
};

/// What a pass does to its layers. A recipe goes through the stages in this order; exactly one of
/// its passes rounds.
enum class Stage {
  kChoosesParameters,  // sets LayerWork::parameters
  kRounds,             // sets LayerWork::packed
  kRefines,            // changes LayerWork::packed
};

/// One step of a compression method. A recipe is an ordered list of passes.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual Stage stage() const = 0;
  virtual bool learns_books() const { return false; }

  /// Throws kUsage for a scheme that the pass can't serve.
  virtual void check(const formats::Scheme&) const {}

  virtual StatisticsKind needs() const { return StatisticsKind::kNone; }
  virtual void apply(SetWork& work, core::ThreadPool& pool) const = 0;
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
