#include "cli/commands.h"
#include "cli/npy_file.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/strategy_options.h"
#include "cli/terminal_progress.h"
#include "cli/text_lines.h"
#include "core/json.h"
#include "engine/engine.h"
#include "engine/pooling.h"
#include "results/labels.h"

namespace nibble::cli {
namespace {

// Where embeddings go: to standard output as JSON, or to a file of NumPy.
class Embeddings {
 public:
  Embeddings(const std::string& file, std::size_t rows, bool as_json) : as_json_(as_json) {
    core::require(file.empty() || file.ends_with(".npy"), core::ErrorKind::kUsage,
                  "-o {} is no name of a NumPy file; it must end in .npy", core::printable(file));
    if (!file.empty()) {
      npy_.emplace(file, static_cast<std::int64_t>(rows));
    }
  }

  void add(std::span<const float> row) {
    results::require_finite(row);
    if (npy_) {
      npy_->add_row(row);
    } else if (as_json_) {
      json_ += json_.empty() ? "" : ",";
      json_ += results::json_numbers(row);
    } else {
      print_result("{{\"embedding\":{}}}\n", results::json_numbers(row));
    }
    ++rows_;
  }

  void finish(const std::string& file, std::int64_t truncated) {
    if (npy_) {
      npy_->commit();
      if (as_json_) {
        const core::Json json = {{"output", file},
                                 {"rows", rows_},
                                 {"columns", npy_->columns()},
                                 {"truncated", truncated}};
        print_result("{}\n", json.dump());
      }
    } else if (as_json_) {
      print_result("{{\"embeddings\":[{}],\"truncated\":{}}}\n", json_, truncated);
    }
  }

 private:
  bool as_json_;
  std::optional<NpyFile> npy_;
  std::string json_;
  std::int64_t rows_ = 0;
};

class Embed final : public ModelCommand {
 public:
  Embed() : ModelCommand("Model folder, GGUF file, or hf:ORG/NAME: an encoder, or a decoder") {}

  void add_model_options(CLI::App& app) override {
    texts_.add(app);
    add_option(app, "-o,--output", output_, "Write a NumPy file (.npy) instead, of float32");
    add_option(app, "--pooling", pooling_,
               "What becomes of an encoder's tokens: first, mean or max (default: what the "
               "model says, or else mean)")
        ->one_of({"first", "mean", "max"});
    add_flag(app, "--normalize", normalize_,
             "Scale embeddings to length 1, also where the model does not say so");
    strategy_.add(app);
    device_.add(app);
    device_.add_packed(app);
  }

  void run() override {
    const engine::RunnerOptions runner_options = device_.runner(model_);
    TerminalProgress progress(common_.quiet);
    const TextLines lines = TextLines::read(texts_.file);
    Embeddings embeddings(output_, lines.size(), common_.json);
    const auto model = strategy_.open(model_, {}, runner_options, common_.quiet);
    if (engine::is_encoder(*model)) {
      choose_pooling(model->network);
    }
    core::require(engine::is_encoder(*model) || pooling_.empty(), core::ErrorKind::kUsage,
                  "--pooling is for encoders, which {} is not", core::printable(model_));
    const Sink sink = [&](std::size_t done, std::span<float> row) {
      if (normalize_) {
        engine::normalize(row);
      }
      embeddings.add(row);
      progress.update(static_cast<std::int64_t>(done), "");
    };
    progress.begin("embed", static_cast<std::int64_t>(lines.size()));
    const std::int64_t truncated = engine::is_encoder(*model)
                                       ? run_encoder(model, runner_options, lines, sink)
                                       : run_decoder(model, runner_options, lines, sink);
    progress.end();
    embeddings.finish(output_, truncated);
  }

 private:
  void choose_pooling(models::Network& network) const {
    if (engine::complete_pooling(network) && pooling_.empty() && !common_.quiet) {
      print_note(
          "nibble: the model does not say how it pools; embeddings are the mean of its tokens\n");
    }
    using enum models::PoolingMode;
    if (!pooling_.empty()) {
      network.pooling->mode = pooling_ == "first" ? kFirst : pooling_ == "max" ? kMax : kMean;
    }
  }

  using Sink = std::function<void(std::size_t done, std::span<float> row)>;

  std::int64_t run_encoder(const std::shared_ptr<const models::Model>& model,
                           const engine::RunnerOptions& runner_options, const TextLines& lines,
                           const Sink& sink) const {
    const auto encoder = engine::make_encoder(model, runner_options);
    const engine::InputOptions options = engine::input_options(*model, *encoder);
    return run_batches(*model, options, lines,
                       [&](std::size_t first, std::span<const text::ModelInput> /*inputs*/,
                           std::span<const engine::EncoderText> texts) {
                         engine::EncoderRows rows = encoder->embed(texts);
                         const auto width = static_cast<std::size_t>(rows.columns);
                         for (std::size_t i = 0; i < texts.size(); ++i) {
                           sink(first + i + 1, std::span(rows.values).subspan(i * width, width));
                         }
                       });
  }

  // The mean of the last hidden states, of length 1, as /v1/embeddings gives it.
  std::int64_t run_decoder(const std::shared_ptr<const models::Model>& model,
                           const engine::RunnerOptions& runner_options, const TextLines& lines,
                           const Sink& sink) const {
    engine::EngineOptions engine_options;
    engine_options.max_batch = 1;
    engine::Engine engine(model, engine::make_runner(model, runner_options), engine_options);
    engine::InputOptions options;
    options.most_tokens = engine.context() - 1;  // an engine keeps a place for the next token
    return run_batches(*model, options, lines,
                       [&](std::size_t first, std::span<const text::ModelInput> inputs,
                           std::span<const engine::EncoderText> /*texts*/) {
                         for (std::size_t i = 0; i < inputs.size(); ++i) {
                           std::vector<float> row = engine.embed(inputs[i].ids);
                           sink(first + i + 1, row);
                         }
                       });
  }

  std::int64_t run_batches(const models::Model& model, engine::InputOptions options,
                           const TextLines& lines, const engine::RunBatch& run) const {
    options = texts_.applied_to(options);
    const std::int64_t truncated = engine::for_each_batch(
        *model.tokenizer, lines.texts(), options, [&](std::size_t i) { return lines.where(i); },
        run);
    note_truncated(truncated, lines.size(), options.most_tokens, common_.quiet);
    return truncated;
  }

  DeviceOptions device_;
  StrategyOptions strategy_;
  TextOptions texts_;
  std::string output_;
  std::string pooling_;
  bool normalize_ = false;
};

}  // namespace

std::unique_ptr<Command> embed_command() {
  return std::make_unique<Embed>();
}

}  // namespace nibble::cli
