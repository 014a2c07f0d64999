#include "compress/search/search_pass.h"

#include "compress/search/group_search.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 4;  // rows of one task

class SearchPass final : public Pass {
 public:
  explicit SearchPass(PassOptions& options)
      : steps_(options.integer("steps", kSearchSteps, 1, 1000)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kChoosesParameters,
            .statistics = StatisticsKind::kChannels,
            .takes_tails = true};
  }

  void check(const formats::Scheme& scheme) const override {
    core::require(
        scheme.code.book != formats::Book::kPerRow && scheme.code.book != formats::Book::kPerMatrix,
        core::ErrorKind::kUsage,
        "recipe: pass 'search' can't search the scales of {}: pass 'any4' chooses them "
        "together with its books",
        scheme);
  }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const std::vector<float> importance = work.statistics->mean_squares();
    for (LayerWork& layer : work.layers) {
      if (layer.is_dense()) {
        continue;
      }
      layer.parameters = search(layer, importance, pool);
    }
  }

 private:
  Parameters search(const LayerWork& layer, std::span<const float> importance,
                    core::ThreadPool& pool) const {
    const std::int64_t k = layer.k();
    const std::int64_t groups = parameter_groups(layer.scheme, k);
    Parameters parameters = empty_parameters(layer.weights, layer.scheme);
    const RowFormats formats(layer.scheme, parameters);
    parameters.groups.resize(static_cast<std::size_t>(layer.n() * groups));
    pool.parallel_for(layer.n(), kRows, [&](std::int64_t begin, std::int64_t end) {
      GroupSearch group_search(steps_);
      for (std::int64_t at = begin * groups; at < end * groups; ++at) {
        const GroupRange range = group_range(layer.scheme, k, at % groups);
        const auto width = static_cast<std::size_t>(range.width);
        const std::span weights(layer.weights);
        parameters.groups[static_cast<std::size_t>(at)] =
            group_search
                .search(
                    range.tail ? formats.tail() : formats.of(0),
                    weights.subspan(static_cast<std::size_t>(at / groups * k + range.begin), width),
                    importance.subspan(static_cast<std::size_t>(range.begin), width))
                .parameters;
      }
    });
    round_scales(parameters, layer.scheme, k);
    return parameters;
  }

  int steps_;
};

}  // namespace

constinit const PassFactory kSearchPass = {"search", read_pass<SearchPass>};

}  // namespace nibble::compress
