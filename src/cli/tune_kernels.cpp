#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "core/json.h"
#include "engine/kernel_schedules.h"
#include "io/atomic_file.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

class TuneKernels final : public ModelCommand {
 public:
  TuneKernels() : ModelCommand("Model folder, or hf:ORG/NAME") {}

  void add_model_options(CLI::App& app) override {
    add_option(app, "--device", device_,
               "Whose kernels: cuda (an NVIDIA GPU), or cuda:1 (the second one)")
        ->check(parsed_by(device::parse_place))
        ->capture_default_str();
    const Option output =
        add_option(app, "-o,--output", output_,
                   "File to write (default: that of NIBBLE_SCHEDULES, or the GPU's file in "
                   "~/.cache/nibble, where commands find it)");
    add_option(app, "--batch", tokens_,
               "Numbers of tokens to measure, out of 1, 2, 4 ... 2048 (default: all)")
        ->delimiter(',');
    add_flag(app, "--check", check_,
             "Only measure, and tell what the built-in choice loses; write nothing")
        ->excludes(output);
  }

  void run() override {
    TerminalProgress progress(common_.quiet);
    const device::Place place = device::parse_place(device_);
    core::require(place.on_gpu(), core::ErrorKind::kUsage,
                  "only kernels of GPUs have schedules; use --device cuda");
    const engine::ScheduleSource target = check_ ? engine::ScheduleSource() : this->target();
    const auto model = cli::open_model(model_, engine::stored_layers_for(place));
    const auto tuning =
        engine::tune_kernels(model->network, tokens_, target, place.index, progress);
    if (!check_) {
      write(tuning);
    }
    common_.json ? print_json(tuning) : print(tuning);
  }

 private:
  engine::ScheduleSource target() const {
    engine::ScheduleSource target = schedule_source(output_);
    core::require(!target.file.empty() || !target.folder.empty(), core::ErrorKind::kUsage,
                  "there is no place to write schedules to; name a file with -o");
    return target;
  }

  static void write(const engine::KernelTuning& tuning) {
    const std::filesystem::path folder = tuning.file.parent_path();
    std::error_code error;
    std::filesystem::create_directories(folder, error);  // what fails here, writing will say
    io::write_file_atomically(tuning.file, tuning.schedules->dump(1) + "\n");
  }

  static double loss(const engine::TunedLinear& row) {
    return row.built_in_seconds / row.seconds - 1;
  }

  static void print(const engine::KernelTuning& tuning) {
    report::Table table{
        {"layer", "tokens", "chosen", "built-in", "us", "us built-in", "built-in loses"}, {}};
    double logarithms = 0.0;
    double most = 0.0;
    for (const engine::TunedLinear& row : tuning.rows) {
      table.rows.push_back({row.layer, std::to_string(row.tokens), row.chosen,
                            row.chosen == row.built_in ? "the same" : row.built_in,
                            fmt::format("{:.2f}", row.seconds * 1e6),
                            fmt::format("{:.2f}", row.built_in_seconds * 1e6),
                            fmt::format("{:.1f} %", 100 * loss(row))});
      logarithms += std::log1p(loss(row));
      most = std::max(most, loss(row));
    }
    const double count = static_cast<double>(std::max<std::size_t>(1, tuning.rows.size()));
    print_result("{}\n{}The built-in choice loses {:.1f} % in the mean, {:.1f} % at the most\n",
                 tuning.gpu, report::to_text(table), 100 * std::expm1(logarithms / count),
                 100 * most);
    if (!tuning.file.empty()) {
      print_result("Written: {}\n", io::shown(tuning.file));
    }
  }

  void print_json(const engine::KernelTuning& tuning) const {
    core::Json rows = core::Json::array();
    for (const engine::TunedLinear& row : tuning.rows) {
      rows.push_back({{"layer", row.layer},
                      {"tokens", row.tokens},
                      {"chosen", row.chosen},
                      {"built_in", row.built_in},
                      {"microseconds", row.seconds * 1e6},
                      {"built_in_microseconds", row.built_in_seconds * 1e6},
                      {"built_in_loss", loss(row)}});
    }
    const core::Json output = check_ ? core::Json() : core::Json(io::shown(tuning.file).str());
    const core::Json json = {
        {"model", model_}, {"gpu", tuning.gpu}, {"rows", std::move(rows)}, {"output", output}};
    print_result("{}\n", json.dump());
  }

  std::string device_ = "cuda";
  std::string output_;
  std::vector<std::int64_t> tokens_;
  bool check_ = false;
};

}  // namespace

std::unique_ptr<Command> tune_kernels_command() {
  return std::make_unique<TuneKernels>();
}

}  // namespace nibble::cli
