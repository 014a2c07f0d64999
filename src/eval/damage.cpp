#include "eval/damage.h"

#include <chrono>
#include <cmath>

#include "core/error.h"

namespace nibble::eval {
namespace {

DamageRow measure_row(const models::Model& model, engine::Runner& runner, engine::Runner* reference,
                      std::span<const std::int32_t> tokens, const DamageOptions& options,
                      core::ProgressSink& progress) {
  const PerplexityResult result =
      measure_perplexity(runner, tokens, options.perplexity, progress, reference);
  DamageRow row;
  row.perplexity = result.perplexity;
  row.divergence.top1_agreement = 1;
  if (result.divergence) {
    row.divergence = *result.divergence;
    const Mean& difference = row.divergence.nll_increase;
    row.increase = std::expm1(difference.value);
    row.increase_standard_error = std::exp(difference.value) * difference.window_standard_error;
  }
  row.bits_per_weight = models::block_bits_per_weight(model.network);
  row.weight_bytes = models::total_weight_bytes(model.network);
  const engine::DeviceLimits unmeasured{"", 1, 1, 0};  // only the speeds are of interest here
  for (const ThroughputRow& speed :
       measure_throughput(runner, model.network, options.throughput, unmeasured, progress)) {
    if (is_steady(speed)) {
      (speed.phase == Phase::kPrefill ? row.prefill : row.decode) = speed.tokens_per_second;
    }
  }
  row.peak_bytes = runner.peak_bytes();
  return row;
}

std::shared_ptr<const models::Model> adapted(const std::shared_ptr<models::Model>& model,
                                             const DamageOptions& options) {
  return options.adapter ? models::with_adapter(*model, *options.adapter, options.adapter_factor)
                         : model;
}

void require_room_for_adapter(const std::vector<compress::Recipe>& recipes) {
  for (const compress::Recipe& recipe : recipes) {
    core::require(
        compress::keeps_inputs(recipe), core::ErrorKind::kUsage,
        "recipe '{}' scales or turns what layers read, so that an adapter of the original "
        "does not fit beside it; leave one of them out",
        core::printable(recipe.name));
  }
}

}  // namespace

std::vector<DamageRow> measure_damage(const std::shared_ptr<models::Model>& model,
                                      const std::vector<compress::Recipe>& recipes,
                                      std::span<const std::int32_t> tokens,
                                      const DamageOptions& options, core::ProgressSink& progress) {
  if (options.adapter) {
    require_room_for_adapter(recipes);
  }
  std::vector<DamageRow> rows;
  const auto original = adapted(model, options);
  engine::RunnerOptions exact = options.runner;
  exact.kv_types = ops::KvType::kF32;
  const auto reference = engine::make_runner(original, exact);
  rows.push_back(measure_row(*original, *reference, nullptr, tokens, options, progress));
  rows.back().recipe = "original";
  for (const compress::Recipe& recipe : recipes) {
    progress.begin_part(recipe.name, std::ssize(rows), std::ssize(recipes));
    const auto start = std::chrono::steady_clock::now();
    auto [packed, layers] =
        compress::quantize_in_memory(*model, recipe, options.pipeline, progress);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto compressed = adapted(packed, options);
    const auto runner = engine::make_runner(compressed, options.runner);
    rows.push_back(measure_row(*compressed, *runner, reference.get(), tokens, options, progress));
    rows.back().recipe = recipe.name;
    rows.back().quantize_seconds = seconds;
    rows.back().layers = std::move(layers);
  }
  return rows;
}

}  // namespace nibble::eval
