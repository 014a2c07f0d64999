#include <algorithm>
#include <utility>

#include "capi/called_progress.h"
#include "capi/evaluate.h"
#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "capi/quantize_options.h"
#include "capi/returned.h"
#include "core/cpu_topology.h"
#include "core/error.h"
#include "core/json.h"
#include "eval/damage.h"
#include "results/measured.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;

void refuse(bool is_set, const char* name) {
  core::require(!is_set, ErrorKind::kUsage, "the option '{}' is for nibble_quantize; leave it out",
                name);
}

void refuse_file_options(const nibble_quantize_options& options) {
  refuse(options.output_scheme != nullptr, "output_scheme");
  refuse(options.parts != nullptr, "parts");
  refuse(options.target_bits != 0, "target_bits");
  refuse(options.fit_bytes != 0, "fit_bytes");
  refuse(options.adapter != nullptr, "adapter");
  refuse(options.resume != 0, "resume");
}

// As nibble compare: keys and values are kept exactly, and recipes run on the CPU.
eval::DamageOptions damage_of(const nibble_quantize_options& quantize,
                              const nibble_evaluate_options& evaluate, const models::Model& model) {
  eval::DamageOptions options;
  options.pipeline = pipeline_of(quantize);
  options.runner.place = std::exchange(options.pipeline.place, {});
  options.runner.kv_types = ops::parse_kv_types("f32");
  options.runner.cpu.threads = options.pipeline.threads =
      core::usable_threads(options.pipeline.threads);
  options.perplexity = perplexity_of(evaluate, model);
  const std::int64_t most = model.network.config.max_positions;
  options.throughput.prefill_tokens = std::min(options.throughput.prefill_tokens, most);
  options.throughput.decode_tokens = std::min(options.throughput.decode_tokens, most - 1);
  return options;
}

std::vector<compress::Recipe> recipes_of(const char* const* names, std::size_t count,
                                         const nibble_quantize_options& options) {
  core::require(names != nullptr && count > 0, ErrorKind::kUsage,
                "there are no recipes to compare");
  std::vector<compress::Recipe> recipes;
  for (std::size_t i = 0; i < count; ++i) {
    recipes.push_back(recipe_of(names[i], options));
  }
  return recipes;
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" nibble_status nibble_compare(const char* model, const char* const* recipes,
                                        size_t recipe_count, const char* text, size_t bytes,
                                        const nibble_evaluate_options* evaluate,
                                        const nibble_quantize_options* quantize, char** json) {
  return guarded([&] {
    require_given(model, "model");
    require_given(json, "json");
    const auto measuring = options_of(evaluate, default_evaluate_options());
    const auto quantizing = options_of(quantize, default_quantize_options());
    refuse_file_options(quantizing);
    nibble::core::require(measuring.reference == nullptr, nibble::core::ErrorKind::kUsage,
                          "the reference is the model itself; leave the option out");
    const auto chosen = recipes_of(recipes, recipe_count, quantizing);
    const auto original = nibble::models::open_model(model, nibble::models::StoredLayers::kDecoded);
    const auto tokens = measured_tokens(*original, text, bytes);
    CalledProgress progress(quantizing.on_progress, quantizing.log, quantizing.user);
    nibble::core::Json rows = nibble::core::Json::array();
    for (const auto& row : nibble::eval::measure_damage(
             original, chosen, tokens, damage_of(quantizing, measuring, *original), progress)) {
      rows.push_back(nibble::results::damage_json(row, 0));
    }
    const nibble::core::Json result = {{"model", model}, {"rows", std::move(rows)}};
    const std::string written =
        result.dump(-1, ' ', false, nibble::core::Json::error_handler_t::replace);
    *json = returned(std::string_view(written)).release();
  });
}
