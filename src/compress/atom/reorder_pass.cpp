#include "compress/atom/reorder_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/tail.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kMultiple = 16;

// The scheme of the layers that have codes; null when there are none. Layers that share an input
// share its order.
const formats::Scheme* common_scheme(const SetWork& work) {
  const LayerWork* first = nullptr;
  for (const LayerWork& layer : work.layers) {
    if (layer.is_dense()) {
      continue;
    }
    first = first == nullptr ? &layer : first;
    core::require(layer.scheme.inputs.tail == first->scheme.inputs.tail, core::ErrorKind::kUsage,
                  "{} and {} read the same input as layers {} and {}: give them one tail",
                  first->scheme, layer.scheme, first->layer->name, layer.layer->name);
  }
  return first == nullptr ? nullptr : &first->scheme;
}

class AtomReorderPass final : public Pass {
 public:
  explicit AtomReorderPass(PassOptions& options)
      : share_(options.number("share", 0.03125, 0.0, 0.5)),
        most_(options.integer("most", 128, kMultiple, 1 << 20)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kTransforms,
            .statistics = StatisticsKind::kChannels,
            .reorders_inputs = true,
            .takes_tails = true};
  }
  bool serves_output(const formats::Scheme&) const override { return false; }

  void check(const formats::Scheme& scheme) const override {
    const bool fits = formats::is_integer(scheme) || formats::takes_tail(scheme);
    core::require(
        fits && !scheme.activation.is_float() && !scheme.activation.keeps_outliers,
        core::ErrorKind::kUsage,
        "pass 'atom-reorder' needs integers, or values of a fixed book, whose activations "
        "are rounded, all of them (int4-sym-g128-a4g128c0.9, lut4-fp4-g128-afp4g128), not "
        "{}",
        scheme);
  }

  formats::Scheme scheme_for(const formats::Scheme& scheme, std::int64_t k) const override {
    formats::Scheme result = scheme;
    if (formats::takes_tail(scheme) && scheme.inputs.tail == 0) {
      const auto multiples = std::llround(static_cast<double>(k) * share_ / kMultiple);
      result.inputs.tail = std::clamp<std::int64_t>(multiples * kMultiple, kMultiple, most_);
    }
    return result;
  }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const formats::Scheme* scheme = common_scheme(work);
    if (scheme == nullptr || scheme->inputs.tail == 0) {
      return;
    }
    const std::vector<float> squares = work.statistics->mean_squares();
    std::vector<std::int32_t> order(squares.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return squares[static_cast<std::size_t>(a)] < squares[static_cast<std::size_t>(b)];
    });
    const ops::InputTransform transform(
        core::Tensor::from<std::int32_t>(order, {1, std::ssize(order)}));
    for (LayerWork& layer : work.layers) {
      if (!layer.is_dense()) {
        transform_inputs(layer, transform, pool);
        layer.permutation = order;
      }
    }
    work.statistics->transform_inputs(transform, pool);
  }

 private:
  double share_;
  int most_;
};

}  // namespace

constinit const PassFactory kAtomReorderPass = {"atom-reorder", read_pass<AtomReorderPass>};

}  // namespace nibble::compress
