#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/strategy_options.h"
#include "cli/terminal_progress.h"
#include "cli/text_lines.h"
#include "engine/classification.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

using models::Problem;

std::string json_text(const std::string& text) {
  return core::Json(text).dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

// The results of the texts, in JSON or as rows of a table.
class Results {
 public:
  Results(const TextLines& lines, const models::Model& model, bool as_json)
      : lines_(lines),
        head_(engine::classifier_of(model)),
        tokenizer_(*model.tokenizer),
        as_json_(as_json) {
    table_.columns = {"line"};
    if (of_tokens()) {
      table_.columns.emplace_back("token");
    }
    table_.columns.emplace_back(is_value() ? "value" : "label");
    if (!is_value()) {
      table_.columns.emplace_back("probability");
    }
    if (!of_tokens()) {
      table_.columns.emplace_back("text");
    }
  }

  bool of_tokens() const { return head_.problem == Problem::kTokenLabels; }

  void add_text(std::size_t text, std::span<const float> logits) {
    check(logits);
    if (as_json_) {
      add_json(json_of(logits));
    } else {
      add_row({std::to_string(text + 1)}, logits).push_back(lines_.shown(text));
    }
  }

  // What the tokenizer put around the text has no results.
  void add_tokens(std::size_t text, const text::ModelInput& input, const engine::EncoderRows& rows,
                  std::int64_t first_row) {
    std::string tokens;
    for (std::size_t i = 0; i < input.ids.size(); ++i) {
      if (input.framing[i]) {
        continue;
      }
      const std::span<const float> logits = rows.row(first_row + static_cast<std::int64_t>(i));
      check(logits);
      const std::string token = tokenizer_.piece(input.ids[i]);
      if (as_json_) {
        tokens += tokens.empty() ? "" : ",";
        tokens += fmt::format("{{\"token\":{},{}}}", json_text(token), fields_of(logits));
      } else {
        add_row({std::to_string(text + 1), fmt::format("{}", core::printable(token))}, logits);
      }
    }
    if (as_json_) {
      add_json(fmt::format("{{\"tokens\":[{}]}}", tokens));
    }
  }

  void print(std::int64_t truncated) const {
    if (as_json_) {
      print_result("{{\"results\":[{}],\"truncated\":{}}}\n", json_, truncated);
    } else {
      write_result(report::to_text(table_));
    }
  }

 private:
  bool is_value() const { return head_.problem == Problem::kRegression; }

  void check(std::span<const float> logits) const {
    require_finite(logits);
    core::require(logits.size() == head_.labels.size(), core::ErrorKind::kInvalidModel,
                  "the model has {} outputs, but config.json names {} labels", logits.size(),
                  head_.labels.size());
  }

  std::string fields_of(std::span<const float> logits) const {
    return fmt::format("\"label\":{},\"logits\":{}",
                       json_text(head_.labels[engine::best_label(logits)]), json_numbers(logits));
  }

  std::string json_of(std::span<const float> logits) const {
    return fmt::format("{{{}}}", fields_of(logits));
  }

  void add_json(const std::string& result) {
    json_ += json_.empty() ? "" : ",";
    json_ += result;
  }

  std::vector<std::string>& add_row(std::vector<std::string> row, std::span<const float> logits) {
    const std::size_t best = engine::best_label(logits);
    if (is_value()) {
      row.push_back(fmt::format("{:.4f}", logits[best]));
    } else {
      row.push_back(head_.labels[best]);
      row.push_back(fmt::format("{:.4f}", engine::probabilities(head_.problem, logits)[best]));
    }
    return table_.rows.emplace_back(std::move(row));
  }

  const TextLines& lines_;
  const models::Classifier& head_;
  const text::Tokenizer& tokenizer_;
  bool as_json_;
  std::string json_;
  report::Table table_;
};

class Classify final : public ModelCommand {
 public:
  Classify() : ModelCommand("Model folder, or hf:ORG/NAME") {}

  void add_model_options(CLI::App& app) override {
    texts_.add(app);
    strategy_.add(app);
    device_.add_kernels(app);
  }

  void run() override {
    const engine::RunnerOptions runner_options = device_.runner(model_);
    TerminalProgress progress(common_.quiet);
    const TextLines lines = TextLines::read(texts_.file);
    const auto model = strategy_.open(model_, {}, runner_options, common_.quiet);
    Results results(lines, *model, common_.json);
    const auto encoder = engine::make_encoder(model, runner_options);
    const engine::InputOptions options = texts_.applied_to(engine::input_options(*model, *encoder));
    progress.begin("classify", static_cast<std::int64_t>(lines.size()));
    const std::int64_t truncated = engine::for_each_batch(
        *model->tokenizer, lines.texts(), options, [&](std::size_t i) { return lines.where(i); },
        [&](std::size_t first, std::span<const text::ModelInput> inputs,
            std::span<const engine::EncoderText> texts) {
          add(results, first, inputs, encoder->classify(texts));
          progress.update(static_cast<std::int64_t>(first + inputs.size()), "");
        });
    progress.end();
    note_truncated(truncated, lines.size(), options.most_tokens, common_.quiet);
    results.print(truncated);
  }

 private:
  static void add(Results& results, std::size_t first, std::span<const text::ModelInput> inputs,
                  const engine::EncoderRows& rows) {
    std::int64_t row = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (results.of_tokens()) {
        results.add_tokens(first + i, inputs[i], rows, row);
        row += static_cast<std::int64_t>(inputs[i].ids.size());
      } else {
        results.add_text(first + i, rows.row(row++));
      }
    }
  }

  DeviceOptions device_;
  StrategyOptions strategy_;
  TextOptions texts_;
};

}  // namespace

std::unique_ptr<Command> classify_command() {
  return std::make_unique<Classify>();
}

}  // namespace nibble::cli
