#include "compress/pruning/score_passes.h"

#include "compress/pruning/sparsity.h"
#include "compress/pruning/wanda.h"

namespace nibble::compress {
namespace {

template <bool by_inputs>
class ScorePass final : public Pass {
 public:
  explicit ScorePass(PassOptions& options)
      : sparsity_(read_sparsity(options)), after_rounding_(options.flag("after_rounding", false)) {}

  PassTraits traits() const override {
    return {.stage = after_rounding_ ? Stage::kRefines : Stage::kPrunes,
            .statistics = by_inputs ? StatisticsKind::kChannels : StatisticsKind::kNone,
            .prunes = true,
            .takes_dense = !after_rounding_};
  }
  bool serves_output(const formats::Scheme&) const override { return false; }
  void check(const formats::Scheme& scheme) const override {
    core::require(!after_rounding_ || !formats::has_learned_book(scheme), core::ErrorKind::kUsage,
                  "recipe: the learned book of {} may hold no exact 0 for weights that are pruned "
                  "after it was learned; prune before the pass 'any4'",
                  scheme);
  }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const std::vector<float> mean_squares =
        by_inputs ? work.statistics->mean_squares() : std::vector<float>();
    for (LayerWork& layer : work.layers) {
      if (after_rounding_ && layer.is_dense()) {
        continue;
      }
      require_prunable(layer, sparsity_);
      if (after_rounding_) {
        prune_codes(layer, mean_squares, pool);
      } else {
        layer.kept = wanda(layer.weights, layer.n(), layer.k(), mean_squares, sparsity_, pool);
        zero_pruned(layer);
      }
    }
  }

 private:
  // Scores are those of the rounded weights; all other codes stay.
  void prune_codes(LayerWork& layer, std::span<const float> mean_squares,
                   core::ThreadPool& pool) const {
    const std::int64_t k = layer.k();
    std::vector<float> rounded(layer.weights.size());
    for (std::int64_t row = 0; row < layer.n(); ++row) {
      formats::decode_row(*layer.packed, row,
                          std::span(rounded).subspan(static_cast<std::size_t>(row * k),
                                                     static_cast<std::size_t>(k)));
    }
    layer.kept = wanda(rounded, layer.n(), k, mean_squares, sparsity_, pool);
    CodedWeight coded = unpack(*layer.packed);
    const auto format = formats::make_format(layer.scheme);
    const std::int64_t groups = formats::groups_per_row(layer.scheme, k);
    const std::int64_t size = formats::group_size(layer.scheme, k);
    for (std::int64_t i = 0; i < layer.n() * k; ++i) {
      if (layer.kept[static_cast<std::size_t>(i)] == 0) {
        const auto group = static_cast<std::size_t>(i / k * groups + i % k / size);
        coded.codes[static_cast<std::size_t>(i)] =
            format->encode(0.0f, coded.parameters.groups[group]);
      }
    }
    layer.packed = pack(coded, layer.n(), k, layer.scheme, pool);
  }

  Sparsity sparsity_;
  bool after_rounding_;
};

}  // namespace

constinit const PassFactory kMagnitudePass = {"magnitude", read_pass<ScorePass<false>>};
constinit const PassFactory kWandaPass = {"wanda", read_pass<ScorePass<true>>};

}  // namespace nibble::compress
