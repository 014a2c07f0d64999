#include "cli/command.h"

#include "cli/hub_model.h"
#include "cli/option.h"
#include "cli/ranks.h"

namespace nibble::cli {

void Command::add_to(CLI::App& app, JsonOutput json) {
  common_.add(app, json);
  add_options(app);
}

void Command::start() {
  require_one_rank(divides_work());
  for (std::string* name : models_) {
    *name = model_place(*name, common_.quiet);
  }
  run();
}

void ModelCommand::add_options(CLI::App& app) {
  add_option(app, "model", model_, models_)->required();
  opens_model(model_);
  add_model_options(app);
}

}  // namespace nibble::cli
