#include "engine/runner.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/error.h"
#include "engine/continues_texts.h"
#include "engine/sampler.h"
#include "ops/plain_attention.h"

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

void Runner::forward_ranked(std::span<const Slice> slices, std::int64_t count,
                            std::vector<ops::RankedToken>& ranked) {
  const LogitsView logits = forward(slices);
  const std::int64_t most = count == 0 ? logits.vocabulary : std::min(count, logits.vocabulary);
  ranked.resize(static_cast<std::size_t>(logits.rows * most));
  pool().parallel_for(logits.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<ops::RankedToken> of_row;
    for (std::int64_t i = begin; i < end; ++i) {
      rank_numbers(logits.row(i), count, of_row);  // leaves no token of a row with NaN
      if (std::cmp_less(of_row.size(), most)) {
        of_row.assign(static_cast<std::size_t>(most), {-1, 0.0f});
      }
      std::copy(of_row.begin(), of_row.end(), ranked.begin() + i * most);
    }
  });
}

std::vector<float> sum_of_rows(const LogitsView& rows) {
  std::vector<float> sum(static_cast<std::size_t>(rows.vocabulary));
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    std::transform(sum.begin(), sum.end(), rows.row(i).begin(), sum.begin(), std::plus<>());
  }
  return sum;
}

std::int64_t weight_bytes_per_token(const models::Network& network) {
  std::int64_t bytes = formats::stored_bytes(network.output.parts.front().weight);
  for (const models::Block& block : network.decoder.blocks) {
    bytes += active_bytes(block, network.config.routing);
  }
  return bytes;
}

std::int64_t multiplications_per_token(const models::Network& network) {
  const ops::RoutingSpec& routing = network.config.routing;
  std::int64_t count = 0;
  for (const models::Block& block : network.decoder.blocks) {
    std::int64_t experts = 0;
    for (const models::Mlp& mlp : block.experts) {
      experts += mlp.up.n() * mlp.up.k() + mlp.down.n() * mlp.down.k();
    }
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      count += set->n() * set->k();
    }
    count -= routing.experts == 0 ? 0 : experts - experts * routing.top / routing.experts;
  }
  return count;
}

void require_runs_on_gpu(const models::Network& network) {
  for (const models::Block& block : network.decoder.blocks) {
    ops::require_plain(block.attention.spec);
  }
}

models::StoredLayers stored_layers_for(const device::Place& place) {
  return place.on_gpu() ? models::StoredLayers::kZeroPoints : models::StoredLayers::kAsTheyAre;
}

std::unique_ptr<Runner> make_runner(std::shared_ptr<const models::Model> model,
                                    const RunnerOptions& options) {
  require_continues_texts(*model);
  if (options.place.on_gpu()) {
    require_runs_on_gpu(model->network);
  }
  return options.place.on_gpu() ? make_cuda_runner(std::move(model), options)
                                : make_cpu_runner(std::move(model), options);
}

}  // namespace nibble::engine
