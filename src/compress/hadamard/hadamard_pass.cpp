#include "compress/hadamard/hadamard_pass.h"

namespace nibble::compress {
namespace {

// The first layer with codes, null when there is none. Layers that share an input must agree.
const LayerWork* first_coded(const SetWork& work) {
  const LayerWork* first = nullptr;
  for (const LayerWork& layer : work.layers) {
    if (layer.is_dense()) {
      continue;
    }
    first = first == nullptr ? &layer : first;
    core::require(layer.scheme.inputs.hadamard == first->scheme.inputs.hadamard &&
                      layer.scheme.inputs.tail == first->scheme.inputs.tail,
                  core::ErrorKind::kUsage,
                  "{} and {} read the same input as layers {} and {}: give them one Hadamard",
                  first->scheme, layer.scheme, first->layer->name, layer.layer->name);
  }
  return first;
}

class HadamardPass final : public Pass {
 public:
  explicit HadamardPass(PassOptions&) {}  // it has none

  PassTraits traits() const override {
    return {.stage = Stage::kTransforms, .turns_inputs = true, .takes_tails = true};
  }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const LayerWork* first = first_coded(work);
    if (first == nullptr) {
      return;
    }
    formats::require_shape(first->scheme, first->n(), first->k());
    const ops::InputTransform transform(first->scheme, first->k());
    if (transform.is_identity()) {
      return;
    }
    for (LayerWork& layer : work.layers) {
      if (!layer.is_dense()) {
        transform_inputs(layer, transform, pool);
      }
    }
    if (work.statistics != nullptr) {
      work.statistics->transform_inputs(transform, pool);
    }
  }
};

}  // namespace

constinit const PassFactory kHadamardPass = {"hadamard", read_pass<HadamardPass>};

}  // namespace nibble::compress
