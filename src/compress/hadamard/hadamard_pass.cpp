#include "compress/hadamard/hadamard_pass.h"

#include "compress/pass_options.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 16;  // rows of one task

class HadamardPass final : public Pass {
 public:
  Stage stage() const override { return Stage::kTransforms; }
  bool turns_inputs() const override { return true; }

  void apply(SetWork& work, core::ThreadPool& pool) const override {
    const LayerWork& first = work.layers.front();
    for (const LayerWork& layer : work.layers) {
      core::require(layer.scheme.hadamard == first.scheme.hadamard, core::ErrorKind::kUsage,
                    "{} and {} read the same input as layers {} and {}: give them one Hadamard",
                    formats::to_string(first.scheme), formats::to_string(layer.scheme),
                    first.layer->name, layer.layer->name);
    }
    formats::require_shape(first.scheme, first.n(), first.k());
    const ops::cpu::InputTransform transform(first.scheme, first.k());
    if (transform.is_identity()) {
      return;
    }
    for (LayerWork& layer : work.layers) {
      turn(layer.target, layer.k(), transform, pool);
      turn(layer.weights, layer.k(), transform, pool);
    }
    if (work.statistics != nullptr) {
      work.statistics->transform_inputs(transform, pool);
    }
  }

 private:
  static void turn(std::vector<float>& w, std::int64_t k, const ops::cpu::InputTransform& transform,
                   core::ThreadPool& pool) {
    const auto width = static_cast<std::size_t>(k);
    pool.parallel_for(std::ssize(w) / k, kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        transform.apply(std::span(w).subspan(static_cast<std::size_t>(row) * width, width));
      }
    });
  }
};

}  // namespace

PassFactory hadamard_pass() {
  return {"hadamard", [](const core::Json& options) -> std::unique_ptr<Pass> {
            PassOptions(options, "hadamard").require_all_used();
            return std::make_unique<HadamardPass>();
          }};
}

}  // namespace nibble::compress
