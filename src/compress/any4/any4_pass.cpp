#include "compress/any4/any4_pass.h"

#include <algorithm>

#include "compress/any4/learned_books.h"

namespace nibble::compress {
namespace {

// Whether pruned weights stand among kept ones, so that their codes must stand for 0. Groups that
// are pruned as a whole are not stored.
bool needs_zero(const LayerWork& layer) {
  if (!formats::is_block_sparse(layer.scheme)) {
    return !layer.kept.empty();
  }
  const std::int64_t group = layer.scheme.scale.group;
  for (auto first = layer.kept.begin(); first != layer.kept.end(); first += group) {
    if (std::any_of(first, first + group, [&](std::uint8_t kept) { return kept != *first; })) {
      return true;
    }
  }
  return false;
}

class Any4Pass final : public Pass {
 public:
  explicit Any4Pass(PassOptions& options) {
    options_.weights = options.choice("weights", {"exact", "root"}) == "exact" ? BookWeights::kExact
                                                                               : BookWeights::kRoot;
    options_.rounds = options.integer("rounds", options_.rounds, 0, 100);
    options_.steps = options.integer("steps", options_.steps, 1, 1000);
  }

  PassTraits traits() const override {
    return {.stage = Stage::kChoosesParameters,
            .statistics = StatisticsKind::kChannels,
            .learns_books = true};
  }
  bool runs_on_gpu(const formats::Scheme& scheme) const override {
    return books_run_on_gpu(scheme);
  }
  bool serves_output(const formats::Scheme& scheme) const override {
    return formats::has_learned_book(scheme);
  }

  void check(const formats::Scheme& scheme) const override {
    core::require(
        formats::has_learned_book(scheme), core::ErrorKind::kUsage,
        "recipe: pass 'any4' learns code books, and {} stores none; take lut4-row-g128 or "
        "lut4-matrix-g128",
        scheme);
  }

  void apply(SetWork& work, const Backend& backend) const override {
    const std::vector<float> mean_squares = work.statistics->mean_squares();
    for (LayerWork& layer : work.layers) {
      if (layer.is_dense()) {
        continue;
      }
      BookOptions options = options_;
      options.exact_zero = needs_zero(layer);
      layer.parameters = learn_books(layer.weights, layer.n(), layer.k(), layer.scheme,
                                     mean_squares, options, backend);
      round_scales(*layer.parameters, layer.scheme, layer.k());
    }
  }

 private:
  BookOptions options_;
};

}  // namespace

constinit const PassFactory kAny4Pass = {"any4", read_pass<Any4Pass>};

}  // namespace nibble::compress
