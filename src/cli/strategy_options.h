#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cli/options.h"
#include "compress/recipe/recipe.h"
#include "engine/runner.h"
#include "eval/encoder_throughput.h"
#include "models/model.h"

namespace nibble::cli {

/// The recipe "qbest": what nibble tune-strategy stored for the model, that device, and steps of
/// `batch` texts of `seq` tokens, in `file`, or in the cache where that is empty. Throws kUsage
/// where nothing is stored, and as engine::StrategyFile::read.
compress::Recipe stored_strategy(const models::Model& model, const engine::RunnerOptions& runner,
                                 std::int64_t batch, std::int64_t seq, const std::string& file);

/// "tuned for 8 texts of 128 tokens on DEVICE; loss 0.00100 (sst2 acc)".
std::string tuned_words(const models::TunedStep& tuned);

/// The same as an object of JSON; null where no strategy chose the types.
core::Json tuned_json(const models::CompressionInfo& compression);

/// Whether one of the steps is of the size that the strategy was chosen for.
bool is_step_of(const models::TunedStep& tuned, std::span<const eval::EncoderShape> steps);

/// Why a strategy of another machine may not be the best here; nothing where it is of this one.
std::optional<std::string> other_machine(const models::CompressionInfo& compression,
                                         const engine::RunnerOptions& runner);

/// --strategy and --strategies: a float model that runs with the types that were stored for it.
struct StrategyOptions {
  std::string step;  // "8x128"; empty: the model runs as it is
  std::string file;
  void add(CLI::App& app);

  /// Opens a model, quantized in memory where a strategy is asked for, or with the adapter beside
  /// it. Says on stderr, unless `quiet`, when it was tuned on another machine. Throws as
  /// LoraOptions::open, stored_strategy and compress::quantize_in_memory; kUsage for a strategy
  /// with an adapter.
  std::shared_ptr<models::Model> open(const std::string& model, const LoraOptions& lora,
                                      const engine::RunnerOptions& runner, bool quiet) const;
  /// Without saying anything of the machine.
  std::shared_ptr<models::Model> open_silently(const std::string& model, const LoraOptions& lora,
                                               const engine::RunnerOptions& runner) const;
};

}  // namespace nibble::cli
