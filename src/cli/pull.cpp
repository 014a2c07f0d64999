#include "hub/pull.h"

#include "cli/commands.h"
#include "cli/option.h"
#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "core/json.h"
#include "io/file_descriptor.h"

namespace nibble::cli {
namespace {

class Pull final : public Command {
 public:
  void add_options(CLI::App& app) override {
    add_option(app, "model", model_, "ORG/NAME, or ORG/NAME@REVISION")->required();
    add_option(app, "--revision", revision_, "Branch, tag or commit (default: main)");
    add_option(app, "--file", files_,
               "Fetch this file alone, a GGUF say (again for more; default: safetensors, "
               "configuration and tokenizer)");
  }

  void run() override {
    constexpr std::string_view kPrefix = "hf:";  // as in the names of other commands
    hub::Repository repository =
        hub::parse_repository(model_.starts_with(kPrefix) ? model_.substr(kPrefix.size()) : model_);
    if (!revision_.empty()) {
      hub::check_revision(revision_);
      repository.revision = revision_;
    }
    TerminalProgress progress(common_.quiet);
    show(repository, hub::pull(repository, hub::settings_from_environment(), files_, progress));
  }

 private:
  // The last line is the place, so that scripts may take it.
  void show(const hub::Repository& repository, const hub::PullResult& result) const {
    const std::filesystem::path place =
        files_.size() == 1 ? result.snapshot / files_.front() : result.snapshot;
    if (common_.json) {
      const core::Json json = {{"model", repository.name},
                               {"revision", repository.revision},
                               {"commit", result.commit},
                               {"path", io::shown(place).str()},
                               {"files", result.files},
                               {"bytes", result.bytes},
                               {"downloaded_bytes", result.downloaded}};
      print_result("{}\n", json.dump());
      return;
    }
    if (!common_.quiet) {
      print_note("{}: {} files, {:.2f} MB, {:.2f} MB of them fetched now\n", repository.name,
                 result.files.size(), static_cast<double>(result.bytes) / 1e6,
                 static_cast<double>(result.downloaded) / 1e6);
    }
    print_result("{}\n", place.string());
  }

  std::string model_;
  std::string revision_;
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<Command> pull_command() {
  return std::make_unique<Pull>();
}

}  // namespace nibble::cli
