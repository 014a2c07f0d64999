#include "compress/rtn/rtn_pass.h"

#include "compress/pass_options.h"
#include "formats/format.h"

namespace nibble::compress {
namespace {

// Codes of dense weights are the weights themselves in the scheme's type.
formats::PackedWeight to_dense(const LayerWork& layer) {
  core::Tensor tensor =
      core::from_float32(layer.weights, {layer.n(), layer.k()}, layer.scheme.dense);
  return formats::dense_weight(std::move(tensor));
}

class RtnPass final : public Pass {
 public:
  void apply(SetWork& work, core::ThreadPool&) const override {
    for (LayerWork& layer : work.layers) {
      layer.packed =
          layer.scheme.kind == formats::FormatKind::kDense
              ? to_dense(layer)
              : formats::round_to_nearest(layer.weights, layer.n(), layer.k(), layer.scheme);
    }
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
