#include "eval/strategy/tune_strategy.h"

#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "cli/text_input.h"
#include "cli/text_lines.h"
#include "compress/recipe/part_words.h"
#include "core/json.h"
#include "engine/kernel_times.h"
#include "engine/strategy_file.h"
#include "engine/text_batches.h"
#include "eval/analysis/analysis_texts.h"
#include "io/atomic_file.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

class TuneStrategy final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    add_option(app, "--batch", options_.batch, "Texts of a step")->capture_default_str();
    add_option(app, "--seq", options_.seq,
               "Tokens of each text; 1: a decode step. An encoder-decoder writes as many")
        ->capture_default_str();
    add_option(app, "--candidates", candidates_,
               "Types to try in each part beside float: w8a8, w4a8, w4a4 (g128, -asym behind "
               "them) or schemes")
        ->delimiter(',')
        ->capture_default_str();
    add_option(app, "--max-loss", options_.max_loss,
               "How much worse the model may be: in the task's measure, in nats for each token "
               "of the text, or 1 minus the cosine of the outputs")
        ->not_negative()
        ->capture_default_str();
    const Option task = add_option(
        app, "--task", task_, "Measure the loss by a task of GLUE: " + eval::glue_task_names());
    const Option data =
        add_option(app, "--data", data_, "The task's .tsv file, or the folder of GLUE");
    task->needs(data);
    data->needs(task);
    add_option(app, "--limit", limit_, "Score only the first items")->positive();
    add_option(app, "--text", text_,
               "Measure the loss by the likelihood of a text (decoders), or of targets: lines of "
               "a source, a tab and its target (encoder-decoders)")
        ->excludes(task);
    add_option(app, "-o,--output", output_,
               "File to write (default: strategies.json in ~/.cache/nibble, where quantize "
               "--recipe qbest finds it)");
    device_.add_kernels(app);
  }

  void run() override {
    TerminalProgress progress(common_.quiet);
    options_.runner = device_.runner();
    options_.candidates = candidates();
    options_.times_folder = cache_folder();
    const std::filesystem::path file = this->file();
    engine::StrategyFile strategies = engine::StrategyFile::read(file);
    const auto model = open_original(model_);
    const auto key = engine::strategy_key(*model, options_.runner, options_.batch, options_.seq);
    const auto loss = this->loss(model);
    const eval::StrategyTuning tuning = eval::tune_strategy(model, *loss, options_, progress);
    strategies.put(key,
                   {tuning.chosen.schemes, tuning.tuned.microseconds, tuning.original.microseconds,
                    tuning.tuned.loss, loss->name(), engine::today()});
    write(file, strategies);
    common_.json ? print_json(tuning, *loss, key, file) : print(tuning, *loss, key, file);
  }

 private:
  std::filesystem::path file() const {
    const std::filesystem::path folder = cache_folder();
    core::require(!output_.empty() || !folder.empty(), core::ErrorKind::kUsage,
                  "there is no place to write strategies to; name a file with -o");
    return output_.empty() ? engine::strategies_in(folder) : std::filesystem::path(output_);
  }

  static void write(const std::filesystem::path& file, const engine::StrategyFile& strategies) {
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);  // writing says what failed
    io::write_file_atomically(file, strategies.to_json().dump(1) + "\n");
  }

  std::vector<formats::Scheme> candidates() const {
    std::vector<formats::Scheme> schemes;
    for (const std::string& word : candidates_) {
      if (const auto scheme = compress::parse_type(word, "--candidates")) {
        schemes.push_back(*scheme);
      }
    }
    return schemes;
  }

  std::unique_ptr<eval::ModelLoss> loss(const std::shared_ptr<const models::Model>& model) const {
    engine::RunnerOptions exact = options_.runner;
    exact.kv_types = ops::KvType::kF32;
    if (!task_.empty()) {
      const eval::GlueTask* const task = eval::find_glue_task(task_);
      core::require(task != nullptr, core::ErrorKind::kUsage,
                    "'{}' is no task of GLUE; tasks are {}", core::printable(task_),
                    core::lazily([] { return eval::glue_task_names(); }));
      const auto path = eval::find_glue_file(data_, *task);
      return eval::task_loss(
          model, {task, path.string(), eval::read_glue_items(path, *task, limit_)}, exact);
    }
    if (!text_.empty() && model->network.has_encoder()) {
      return pairs_loss(model, exact);
    }
    if (!text_.empty()) {
      return eval::text_loss(model, model->tokenizer->encode(read_text(text_), {}), exact);
    }
    return eval::output_loss(model, options_.batch, options_.seq, exact);
  }

  // Pairs of a source and its target, a line each.
  std::unique_ptr<eval::ModelLoss> pairs_loss(const std::shared_ptr<const models::Model>& model,
                                              const engine::RunnerOptions& exact) const {
    core::require(model->network.has_decoder(), core::ErrorKind::kUsage,
                  "--text measures what a decoder writes; {} has none: take --task",
                  core::printable(model_));
    const TextLines lines = TextLines::read(text_);
    return eval::pairs_loss(
        model,
        eval::lines_of(*model, lines.texts(), [&](std::size_t i) { return lines.where(i); }, {}),
        exact);
  }

  static std::string type_of(const std::optional<formats::Scheme>& scheme) {
    return scheme ? formats::to_string(*scheme) : "float";
  }

  static std::string share_of(const engine::PartOption& option) {
    return option.limit_microseconds > 0
               ? fmt::format("{:.1f} %", 100 * option.limit_microseconds / option.microseconds)
               : "";
  }

  static bool is_chosen(const eval::StrategyTuning& tuning, models::LayerPart part,
                        const engine::PartOption& option) {
    const auto at = tuning.chosen.schemes.find(part);
    return at == tuning.chosen.schemes.end() ? !option.scheme : option.scheme == at->second;
  }

  static void print(const eval::StrategyTuning& tuning, const eval::ModelLoss& loss,
                    const engine::StrategyKey& key, const std::filesystem::path& file) {
    report::Table table{{"part", "type", tuning.by_kernel ? "us" : "us of the model",
                         "share of limit", "loss", "chosen"},
                        {}};
    for (const auto& [part, options] : tuning.options) {
      for (const engine::PartOption& option : options) {
        table.rows.push_back({std::string(name_of(part)), type_of(option.scheme),
                              fmt::format("{:.2f}", option.microseconds), share_of(option),
                              option.scheme ? fmt::format("{:.5f}", option.loss) : "",
                              is_chosen(tuning, part, option) ? "*" : ""});
      }
    }
    print_result("{}, batch {}, seq {}; loss: {}\n{}", core::printable(key.device), key.batch,
                 key.seq, loss.name(), report::to_text(table));
    print_result("{}\nThe whole model: {:.1f} us (float {:.1f} us), loss {:.5f}; {} tried\n",
                 models::to_string(tuning.chosen.schemes), tuning.tuned.microseconds,
                 tuning.original.microseconds, tuning.tuned.loss, tuning.tried);
    print_result("Written: {}\n", io::shown(file));
  }

  void print_json(const eval::StrategyTuning& tuning, const eval::ModelLoss& loss,
                  const engine::StrategyKey& key, const std::filesystem::path& file) const {
    core::Json rows = core::Json::array();
    core::Json chosen = core::Json::object();
    for (const auto& [part, options] : tuning.options) {
      for (const engine::PartOption& option : options) {
        const bool taken = is_chosen(tuning, part, option);
        rows.push_back(
            {{"part", name_of(part)},
             {"type", type_of(option.scheme)},
             {"microseconds", option.microseconds},
             {"limit_microseconds",
              option.limit_microseconds > 0 ? core::Json(option.limit_microseconds) : core::Json()},
             {"loss", option.loss},
             {"chosen", taken}});
        if (taken) {
          chosen[std::string(name_of(part))] = type_of(option.scheme);
        }
      }
    }
    const core::Json json = {{"model", model_},
                             {"device", key.device},
                             {"batch", key.batch},
                             {"seq", key.seq},
                             {"measure", loss.name()},
                             {"max_loss", options_.max_loss},
                             {"rows", std::move(rows)},
                             {"chosen", std::move(chosen)},
                             {"microseconds", tuning.tuned.microseconds},
                             {"float_microseconds", tuning.original.microseconds},
                             {"loss", tuning.tuned.loss},
                             {"tried", tuning.tried},
                             {"output", io::shown(file).str()}};
    print_result("{}\n", json.dump());
  }

  DeviceOptions device_ = DeviceOptions::exact();
  eval::StrategyOptions options_;
  std::vector<std::string> candidates_ = {"w8a8", "w4a8", "w4a4"};
  std::string task_;
  std::string data_;
  std::string text_;
  std::string output_;
  std::int64_t limit_ = 0;
};

}  // namespace

std::unique_ptr<Command> tune_strategy_command() {
  return std::make_unique<TuneStrategy>();
}

}  // namespace nibble::cli
