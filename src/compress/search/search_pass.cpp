#include "compress/search/search_pass.h"

#include "compress/search/group_search.h"
#include "compress/search/searched_parameters.h"

namespace nibble::compress {
namespace {

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
    core::require(!formats::has_learned_book(scheme), core::ErrorKind::kUsage,
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
      layer.parameters = search_parameters(layer.weights, layer.n(), layer.k(), layer.scheme,
                                           importance, steps_, pool);
    }
  }

 private:
  int steps_;
};

}  // namespace

constinit const PassFactory kSearchPass = {"search", read_pass<SearchPass>};

}  // namespace nibble::compress
