#include "compress/shortgpt/shortgpt_pass.h"

namespace nibble::compress {
namespace {

constexpr int kMostBlocks = 1000;

class ShortGptPass final : public Pass {
 public:
  explicit ShortGptPass(PassOptions& options)
      : blocks_(options.integer("blocks", 1, 1, kMostBlocks)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kRemovesBlocks,
            .takes_tails = true,  // weights have none yet
            .takes_dense = true};
  }
  std::int64_t removed_blocks() const override { return blocks_; }

  void apply(SetWork&, const Backend&) const override {}  // all is done before blocks come

 private:
  int blocks_;
};

}  // namespace

constinit const PassFactory kShortGptPass = {"shortgpt", read_pass<ShortGptPass>};

}  // namespace nibble::compress
