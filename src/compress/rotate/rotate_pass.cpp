#include "compress/rotate/rotate_pass.h"

#include <limits>

#include "compress/rotate/model_rotation.h"

namespace nibble::compress {
namespace {

class RotatePass final : public Pass {
 public:
  explicit RotatePass(PassOptions& options)
      : seed_(options.integer("seed", 0, 0, std::numeric_limits<int>::max())) {}

  PassTraits traits() const override {
    return {.stage = Stage::kTransformsModel,
            .takes_tails = true,  // weights have none yet
            .takes_dense = true};
  }

  std::unique_ptr<ModelTransform> transform(const models::Network& network) const override {
    return std::make_unique<ModelRotation>(network, static_cast<std::uint64_t>(seed_));
  }

  void apply(SetWork&, const Backend&) const override {}  // all is done when blocks come

 private:
  int seed_;
};

}  // namespace

constinit const PassFactory kRotatePass = {"rotate", read_pass<RotatePass>};

}  // namespace nibble::compress
