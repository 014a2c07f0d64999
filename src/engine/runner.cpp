#include "engine/runner.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::engine {
namespace {

std::int64_t active_bytes(const models::Block& block, const ops::RoutingSpec& routing) {
  std::int64_t shared = 0;
  std::int64_t experts = 0;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    const bool expert =
        std::any_of(block.experts.begin(), block.experts.end(),
                    [&](const models::Mlp& mlp) { return set == &mlp.up || set == &mlp.down; });
    for (const ops::Linear& part : set->parts) {
      (expert ? experts : shared) += formats::stored_bytes(part.weight) + ops::low_rank_bytes(part);
    }
  }
  return shared + (experts == 0 ? 0 : experts * routing.top / routing.experts);
}

}  // namespace

Device parse_device(std::string_view text) {
  core::require(text == "cpu" || text == "cuda", core::ErrorKind::kUsage,
                "device '{}' is not known; use cpu or cuda", core::printable(text));
  return text == "cpu" ? Device::kCpu : Device::kCuda;
}

std::int64_t weight_bytes_per_token(const models::Decoder& decoder) {
  std::int64_t bytes = formats::stored_bytes(decoder.output.parts.front().weight);
  for (const models::Block& block : decoder.blocks) {
    bytes += active_bytes(block, decoder.config.routing);
  }
  return bytes;
}

std::unique_ptr<Runner> make_runner(std::shared_ptr<const models::Model> model,
                                    const RunnerOptions& options) {
  return options.device == Device::kCuda ? make_cuda_runner(std::move(model), options)
                                         : make_cpu_runner(std::move(model), options);
}

}  // namespace nibble::engine
