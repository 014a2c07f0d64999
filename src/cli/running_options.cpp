#include "cli/running_options.h"

namespace nibble::cli {

void RunningOptions::add(CLI::App& app) {
  lora.add(app);
  strategy.add(app);
  device.add(app);
  device.add_packed(app);
}

std::shared_ptr<models::Model> RunningOptions::open(const std::string& model,
                                                    const engine::RunnerOptions& runner,
                                                    bool quiet) const {
  return strategy.open(model, lora, runner, quiet);
}

}  // namespace nibble::cli
