#include "cli/strategy_options.h"

#include <algorithm>

#include "cli/encoder_bench.h"
#include "cli/option.h"
#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "compress/pipeline/pipeline.h"
#include "core/json.h"
#include "engine/strategy_file.h"

namespace nibble::cli {

compress::Recipe stored_strategy(const models::Model& model, const engine::RunnerOptions& runner,
                                 std::int64_t batch, std::int64_t seq, const std::string& file) {
  const std::filesystem::path folder = cache_folder();
  core::require(!file.empty() || !folder.empty(), core::ErrorKind::kUsage,
                "there is no folder that strategies could be kept in; name a file with "
                "--strategies");
  const engine::StrategyKey key = engine::strategy_key(model, runner, batch, seq);
  const engine::StoredStrategy stored = engine::require_strategy(
      file.empty() ? engine::strategies_in(folder) : std::filesystem::path(file), key);
  compress::Recipe recipe = compress::find_recipe("i8-qall");
  recipe.name = compress::kBestRecipe;
  recipe.tuned = {key.device, key.batch, key.seq, stored.loss, stored.measure};
  return compress::with_parts(std::move(recipe), stored.schemes);
}

std::string tuned_words(const models::TunedStep& tuned) {
  return fmt::format("tuned for {} texts of {} tokens on {}; loss {:.5f} ({})", tuned.batch,
                     tuned.seq, core::printable(tuned.device), tuned.loss,
                     core::printable(tuned.measure));
}

core::Json tuned_json(const models::CompressionInfo& compression) {
  if (!compression.tuned) {
    return {};
  }
  const models::TunedStep& tuned = *compression.tuned;
  return {{"device", tuned.device},
          {"batch", tuned.batch},
          {"seq", tuned.seq},
          {"loss", tuned.loss},
          {"measure", tuned.measure}};
}

bool is_step_of(const models::TunedStep& tuned, std::span<const eval::EncoderShape> steps) {
  return std::any_of(steps.begin(), steps.end(), [&](const eval::EncoderShape& step) {
    return engine::strategy_bucket(step.texts, "texts") == tuned.batch &&
           engine::strategy_bucket(step.tokens, "tokens") == tuned.seq;
  });
}

std::optional<std::string> other_machine(const models::CompressionInfo& compression,
                                         const engine::RunnerOptions& runner) {
  if (!compression.tuned) {
    return std::nullopt;
  }
  const std::string here = engine::strategy_device(runner);
  if (here == compression.tuned->device) {
    return std::nullopt;
  }
  return fmt::format("the types of the model's parts were tuned on {}; on {} others may be faster",
                     core::printable(compression.tuned->device), core::printable(here));
}

void StrategyOptions::add(CLI::App& app) {
  const Option strategy =
      add_option(app, "--strategy", step,
                 "Run a float model with the types that nibble tune-strategy stored for steps "
                 "of TEXTSxTOKENS (8x128), rounded to nearest in memory");
  add_option(app, "--strategies", file,
             "With --strategy: file of nibble tune-strategy (default: strategies.json in "
             "~/.cache/nibble)")
      ->needs(strategy);
}

std::shared_ptr<models::Model> StrategyOptions::open_silently(
    const std::string& model, const LoraOptions& lora, const engine::RunnerOptions& runner) const {
  if (step.empty()) {
    return lora.open(model, runner.place);
  }
  core::require(lora.folder.empty(), core::ErrorKind::kUsage,
                "--strategy is for a model without --lora; merge the adapter with nibble quantize "
                "--merge-lora");
  const eval::EncoderShape shape = parse_shape(step, "--strategy");
  auto opened = models::open_model(model, models::StoredLayers::kDecoded);
  const compress::Recipe recipe = stored_strategy(*opened, runner, shape.texts, shape.tokens, file);
  compress::PipelineOptions options;
  options.threads = runner.cpu.threads;
  return compress::quantize_in_memory(*opened, recipe, options, core::silent_progress()).model;
}

std::shared_ptr<models::Model> StrategyOptions::open(const std::string& model,
                                                     const LoraOptions& lora,
                                                     const engine::RunnerOptions& runner,
                                                     bool quiet) const {
  auto opened = open_silently(model, lora, runner);
  const auto other = quiet ? std::nullopt : other_machine(opened->compression, runner);
  if (other) {
    print_note("nibble: warning: {}\n", *other);
  }
  return opened;
}

}  // namespace nibble::cli
