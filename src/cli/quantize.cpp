#include <algorithm>
#include <optional>

#include "cli/commands.h"
#include "cli/conversion_report.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/resume_notice.h"
#include "cli/shell_words.h"
#include "cli/strategy_options.h"
#include "cli/terminal_progress.h"
#include "cli/text_input.h"
#include "compress/export/quantize_for.h"
#include "compress/pipeline/pipeline.h"
#include "compress/recipe/part_words.h"
#include "core/byte_size.h"
#include "core/json.h"
#include "results/measured.h"

namespace nibble::cli {
namespace {

std::vector<std::string> export_names() {
  std::vector<std::string> names;
  for (const compress::ExportTarget& target : compress::export_targets()) {
    names.emplace_back(target.name);
  }
  return names;
}

class Quantize final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    add_option(app, "-o,--output", output_, "Folder to write; must not exist")->required();
    add_option(app, "--for", for_,
               "Write it for another program, with a recipe whose codes its files take over: "
               "vllm, llama.cpp (a GGUF file), transformers, mlx")
        ->one_of(export_names());
    add_option(
        app, "--recipe", recipe_,
        "Preset or .json file: " + fmt::format("{}", fmt::join(compress::recipe_names(), " ")));
    add_option(app, "--quantize-parts", parts_,
               "Only these parts of each layer, the others stay float: qkv, out, mlp-in, "
               "mlp-out, by the recipe or each by its own type "
               "(qkv=w8a8,out=float,mlp-in=w4a8,mlp-out=w4a4)");
    add_option(app, "--batch", batch_, "With --recipe qbest: texts of a step");
    add_option(app, "--seq", seq_, "With --recipe qbest: tokens of each text");
    add_option(app, "--strategies", strategies_,
               "With --recipe qbest: file of nibble tune-strategy (default: strategies.json in "
               "~/.cache/nibble)");
    compress::CalibrationOptions& calibration = pipeline_.calibration;
    add_option(app, "--calib", calib_, kCalibrationHelp);
    add_option(app, "--samples", calibration.samples, "Calibration windows")->capture_default_str();
    add_option(app, "--seq-len", calibration.seq_len, "Tokens of a calibration window")
        ->capture_default_str();
    add_option(app, "--seed", calibration.seed, "For text that the model writes itself")
        ->capture_default_str();
    add_threads(app, pipeline_.threads);
    const Option bits = add_option(app, "--target-bits", target_bits_,
                                   "Mix formats: at most this many bits per weight in the blocks");
    add_option(app, "--fit", fit_, "Mix formats: weights of at most this size in all (6GiB, 500MB)")
        ->excludes(bits);
    add_option(app, "--output-scheme", output_scheme_,
               "Also round the output layer (lm_head), which otherwise stays in 16 bits, by "
               "this scheme (int8-sym-g32)");
    add_option(app, "--merge-lora", adapter_,
               "Folder of a PEFT LoRA adapter to merge into the weights first");
    add_option(app, "--memory", memory_, kMemoryHelp);
    add_option(app, "--damage", damage_,
               "What nibble compare --json wrote of this model, for the model card");
    add_option(app, "--device", device_,
               "Where to run: cpu, cuda (an NVIDIA GPU), or cuda:1 (the second one)")
        ->check(parsed_by(device::parse_place))
        ->capture_default_str();
    add_flag(app, "--resume", resume_, "Go on with an interrupted job for the same output");
  }

  void run() override {
    pipeline_.place = device::parse_place(device_);
    core::require(!pipeline_.place.on_gpu() || memory_.empty(), core::ErrorKind::kUsage,
                  "--memory is for --device cpu; on a GPU hidden states stay in its memory: take "
                  "fewer --samples or a shorter --seq-len");
    pipeline_.memory = memory_bytes(memory_);
    if (recipe_.empty() && parts_.empty() && !for_.empty()) {
      recipe_ = compress::find_export_target(for_).recipe;
    }
    const auto model = open_original(model_);
    compress::Recipe recipe = recipe_ == compress::kBestRecipe ? best(*model) : this->recipe();
    if (!output_scheme_.empty()) {
      recipe = compress::with_output(std::move(recipe), output_scheme());
    }
    if (target_bits_) {
      recipe = compress::with_target(std::move(recipe), {*target_bits_, 0});
    } else if (!fit_.empty()) {
      recipe = compress::with_target(std::move(recipe), {0, core::parse_byte_size(fit_, "--fit")});
    }
    if (!damage_.empty()) {
      pipeline_.damage = compress::find_damage(read_text(damage_), damage_, recipe.name);
    }
    pipeline_.calibration.texts = read_calibration_texts(calib_);
    TerminalProgress progress(common_.quiet);
    if (!adapter_.empty()) {
      pipeline_.adapter =
          std::make_shared<models::LoraAdapter>(models::LoraAdapter::open(adapter_));
    }
    if (!for_.empty()) {
      write_for(*model, recipe, progress);
      return;
    }
    {
      const ResumeNotice notice;
      compress::quantize_model(*model, recipe, output_, pipeline_, resume_, progress);
    }
    const auto result = open_model(output_);
    print(*model, *result);
    hint_at_tuning(*result);
  }

 private:
  // What pruning whole groups costs, training brings back.
  void hint_at_tuning(const models::Model& result) const {
    const auto& schemes = result.compression.schemes;
    const bool is_trainable = std::any_of(schemes.begin(), schemes.end(), [](const auto& layer) {
      return formats::is_block_sparse(layer.second) && formats::is_integer(layer.second);
    });
    if (is_trainable && !common_.quiet && !common_.json) {
      const std::vector<std::string> words = {"nibble",
                                              "tune",
                                              output_,
                                              "-o",
                                              output_ + "-tuned",
                                              "--teacher",
                                              model_,
                                              "--calib",
                                              calib_.empty() ? "TEXT" : calib_.front()};
      print_note("pruned in one shot; training brings much of it back: {}\n", shell_command(words));
    }
  }

  void write_for(const models::Model& model, const compress::Recipe& recipe,
                 core::ProgressSink& progress) const {
    const compress::ExportTarget& target = compress::find_export_target(for_);
    compress::ExportedModel written;
    {
      const ResumeNotice notice;
      written =
          compress::quantize_for(model, recipe, target, output_, pipeline_, resume_, progress);
    }
    const std::string command = shell_command(target.run(output_));
    if (common_.json) {
      core::Json json = {{"model", model_},
                         {"output", output_},
                         {"recipe", recipe.name},
                         {"for", for_},
                         {"run", command}};
      json.update(conversion_json(written.method, written.conversion));
      print_result("{}\n", json.dump());
      return;
    }
    print_result("{}: {} for {}, by {}\n{}  run it: {}\n", output_, written.method, for_,
                 recipe.name, conversion_text(written.conversion), command);
  }

  // What nibble tune-strategy has stored for the model.
  compress::Recipe best(const models::Model& model) const {
    core::require(batch_ > 0 && seq_ > 0 && parts_.empty(), core::ErrorKind::kUsage,
                  "--recipe qbest needs the --batch and --seq that nibble tune-strategy measured, "
                  "and chooses the parts itself");
    engine::RunnerOptions runner;
    runner.place = pipeline_.place;
    runner.cpu.threads = pipeline_.threads;
    return stored_strategy(model, runner, batch_, seq_, strategies_);
  }

  // Without --recipe parts are rounded to nearest.
  compress::Recipe recipe() const {
    core::require(!recipe_.empty() || !parts_.empty(), core::ErrorKind::kUsage,
                  "give a --recipe, or types for parts with --quantize-parts, or --for PROGRAM");
    core::require(batch_ == 0 && seq_ == 0 && strategies_.empty(), core::ErrorKind::kUsage,
                  "--batch, --seq and --strategies are for --recipe qbest; leave them out");
    if (recipe_.empty()) {
      core::require(compress::every_part_has_type(parts_), core::ErrorKind::kUsage,
                    "--quantize-parts {}: without a --recipe each part needs a type (qkv=w8a8)",
                    core::printable(parts_));
    }
    compress::Recipe recipe = compress::find_recipe(recipe_.empty() ? "i8-qall" : recipe_);
    if (recipe_.empty()) {
      recipe.name = "rtn";
    }
    if (parts_.empty()) {
      return recipe;
    }
    const models::PartSchemes parts = compress::parse_part_schemes(parts_, recipe);
    return compress::with_parts(std::move(recipe), parts);
  }

  formats::Scheme output_scheme() const {
    try {
      return formats::parse_scheme(output_scheme_);
    } catch (const core::Error& error) {
      core::fail(core::ErrorKind::kUsage, "--output-scheme: {}", error.what());
    }
  }

  void print(const models::Model& original, const models::Model& result) const {
    if (common_.json) {
      print_result("{}\n", results::quantized_json(model_, original, output_, result).dump());
      return;
    }
    const std::int64_t before = models::total_weight_bytes(original.network);
    const std::int64_t after = models::total_weight_bytes(result.network);
    const double bits = models::block_bits_per_weight(result.network);
    print_result("{}: {:.3f} bits per weight in the blocks, {:.2f} MB (was {:.2f} MB)\n", output_,
                 bits, static_cast<double>(after) / 1e6, static_cast<double>(before) / 1e6);
  }

  std::string output_;
  std::string for_;
  std::string recipe_;
  std::string parts_;
  std::int64_t batch_ = 0;  // of qbest; 0: not given
  std::int64_t seq_ = 0;
  std::string strategies_;
  std::vector<std::string> calib_;
  std::string device_ = "cpu";
  std::string memory_;
  std::string adapter_;
  std::string damage_;
  std::optional<double> target_bits_;
  std::string fit_;
  std::string output_scheme_;
  bool resume_ = false;
  compress::PipelineOptions pipeline_;
};

}  // namespace

std::unique_ptr<Command> quantize_command() {
  return std::make_unique<Quantize>();
}

}  // namespace nibble::cli
