#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "core/json.h"
#include "engine/tile_file.h"
#include "io/file_descriptor.h"
#include "models/tile_file_mark.h"

namespace nibble::cli {
namespace {

class Pack final : public ModelCommand {
 public:
  Pack() : ModelCommand("Model folder") {}

  void add_model_options(CLI::App& app) override {
    add_option(app, "-o,--output", output_,
               "File to write (default: cpu-tiles.nibble in the model's folder, where commands "
               "find it)");
    add_threads(app, threads_);
  }

  void run() override {
    TerminalProgress progress(common_.quiet);
    const auto model = open_model(model_);
    core::require(
        !output_.empty() || std::filesystem::is_directory(model_), core::ErrorKind::kUsage,
        "{} is a file, with no folder for its layouts: say where they shall lie (-o), and "
        "give them to other commands with --packed",
        core::printable(model_));
    const std::filesystem::path path =
        output_.empty() ? engine::tile_file_in(model_) : std::filesystem::path(output_);
    std::error_code error;
    core::require(!std::filesystem::exists(path, error) || models::is_tile_file(path),
                  core::ErrorKind::kUsage,
                  "{} is there and is no file of nibble pack; choose another name with -o",
                  io::shown(path));
    core::ThreadPool pool(threads_);
    const engine::TileFileSummary summary = engine::write_tile_file(*model, path, pool, progress);
    if (common_.json) {
      const core::Json json = {{"model", model_},
                               {"output", io::shown(path).str()},
                               {"layers", summary.layers},
                               {"bytes", summary.bytes}};
      print_result("{}\n", json.dump());
      return;
    }
    print_result("{}: {} layers, {:.2f} MB\n", io::shown(path), summary.layers,
                 static_cast<double>(summary.bytes) / 1e6);
  }

 private:
  std::string output_;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> pack_command() {
  return std::make_unique<Pack>();
}

}  // namespace nibble::cli
