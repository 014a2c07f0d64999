#include "compress/rtn/rtn_pass.h"

#include "compress/pass_options.h"
#include "formats/format.h"

namespace nibble::compress {
namespace {

class RtnPass final : public Pass {
 public:
  Stage stage() const override { return Stage::kRounds; }
  bool takes_tails() const override { return true; }
  bool takes_dense() const override { return true; }

  // Pruned weights are 0, and the nearest code of 0 means 0 in every scheme that can be pruned.
  void apply(SetWork& work, core::ThreadPool& pool) const override {
    for (LayerWork& layer : work.layers) {
      layer.packed = round(layer, pool);
    }
  }

 private:
  static formats::PackedWeight round(LayerWork& layer, core::ThreadPool& pool) {
    const bool chosen = layer.parameters.has_value();
    if (layer.is_dense() || (!chosen && layer.scheme.tail == 0)) {
      return formats::round_to_nearest(layer.weights, layer.n(), layer.k(), layer.scheme);
    }
    Parameters parameters =
        chosen ? *std::move(layer.parameters)
               : fit_parameters(layer.weights, layer.n(), layer.k(), layer.scheme, pool);
    return pack(
        round_with(layer.weights, layer.n(), layer.k(), layer.scheme, std::move(parameters), pool),
        layer.n(), layer.k(), layer.scheme, layer.permutation);
  }
};

}  // namespace

PassFactory rtn_pass() {
  return {"rtn", [](const core::Json& options) -> std::unique_ptr<Pass> {
            PassOptions(options, "rtn").require_all_used();
            return std::make_unique<RtnPass>();
          }};
}

}  // namespace nibble::compress
