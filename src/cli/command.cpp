#include "cli/command.h"

#include <CLI/CLI.hpp>

namespace nibble::cli {

void Command::add_to(CLI::App& app, JsonOutput json) {
  common_.add(app, json);
  add_options(app);
}

void ModelCommand::add_options(CLI::App& app) {
  app.add_option("model", model_, models_)->required();
  add_model_options(app);
}

}  // namespace nibble::cli
