#pragma once

#include <memory>
#include <string>

#include "cli/options.h"
#include "cli/strategy_options.h"
#include "engine/runner.h"
#include "models/model.h"

namespace nibble::cli {

/// How commands run one stored model: --lora, --strategy, --device with what belongs to it, and
/// --packed.
struct RunningOptions {
  LoraOptions lora;
  StrategyOptions strategy;
  DeviceOptions device;
  void add(CLI::App& app);

  /// As DeviceOptions::runner.
  engine::RunnerOptions runner(const std::string& model) const { return device.runner(model); }
  /// As StrategyOptions::open.
  std::shared_ptr<models::Model> open(const std::string& model, const engine::RunnerOptions& runner,
                                      bool quiet) const;
};

}  // namespace nibble::cli
