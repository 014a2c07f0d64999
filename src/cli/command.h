#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options.h"

namespace nibble::cli {

/// What a subcommand of the program takes and does.
class Command {
 public:
  virtual ~Command() = default;
  /// Adds the options of every command, then its own.
  void add_to(CLI::App& app, JsonOutput json);
  /// Finds the models that the call names, on the hub too (cli/hub_model.h), and runs. Throws
  /// core::Error.
  void start();

 protected:
  virtual void run() = 0;
  /// Whether several ranks do it together (cli/ranks.h). Others are refused where there are any.
  virtual bool divides_work() const { return false; }
  /// `name` is an option's: of a model, or empty. When run() begins it is a file or folder.
  void opens_model(std::string& name) { models_.push_back(&name); }
  virtual void add_options(CLI::App& app) = 0;

  CommonOptions common_;

 private:
  std::vector<std::string*> models_;
};

/// A command whose first argument is a model.
class ModelCommand : public Command {
 public:
  explicit ModelCommand(std::string models = "Model folder, GGUF file, or hf:ORG/NAME")
      : models_(std::move(models)) {}

 protected:
  void add_options(CLI::App& app) final;
  /// Those behind the model.
  virtual void add_model_options(CLI::App& app) = 0;

  std::string model_;

 private:
  std::string models_;  // which it takes, for help
};

/// A subcommand by its name, with what help says of it.
struct CommandEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view examples;  // shown under --help
  JsonOutput json;
  std::unique_ptr<Command> (*make)();
};

/// Every command of this build; the one registration place is all.cpp.
std::span<const CommandEntry> commands();

}  // namespace nibble::cli
