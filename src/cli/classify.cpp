#include "cli/commands.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/strategy_options.h"
#include "cli/terminal_progress.h"
#include "cli/text_lines.h"
#include "engine/classification.h"
#include "report/text_table.h"
#include "results/labels.h"

namespace nibble::cli {
namespace {

using models::Problem;

// The results of the texts as rows of a table.
class LabelsTable {
 public:
  LabelsTable(const TextLines& lines, const models::Model& model)
      : lines_(lines), head_(engine::classifier_of(model)), tokenizer_(*model.tokenizer) {
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

  void add(std::size_t first, std::span<const text::ModelInput> inputs,
           const engine::EncoderRows& rows) {
    std::int64_t row = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (of_tokens()) {
        add_tokens(first + i, inputs[i], rows, row);
        row += static_cast<std::int64_t>(inputs[i].ids.size());
      } else {
        add_row({std::to_string(first + i + 1)}, rows.row(row++))
            .push_back(lines_.shown(first + i));
      }
    }
  }

  std::string text() const { return report::to_text(table_); }

 private:
  bool of_tokens() const { return head_.problem == Problem::kTokenLabels; }
  bool is_value() const { return head_.problem == Problem::kRegression; }

  // What the tokenizer put around the text has no results.
  void add_tokens(std::size_t text, const text::ModelInput& input, const engine::EncoderRows& rows,
                  std::int64_t first_row) {
    for (std::size_t i = 0; i < input.ids.size(); ++i) {
      if (!input.framing[i]) {
        const std::string token = tokenizer_.piece(input.ids[i]);
        add_row({std::to_string(text + 1), fmt::format("{}", core::printable(token))},
                rows.row(first_row + static_cast<std::int64_t>(i)));
      }
    }
  }

  std::vector<std::string>& add_row(std::vector<std::string> row, std::span<const float> logits) {
    results::check_outputs(head_, logits);
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
    LabelsTable table(lines, *model);
    results::LabelsJson json(*model);
    const auto encoder = engine::make_encoder(model, runner_options);
    const engine::InputOptions options = texts_.applied_to(engine::input_options(*model, *encoder));
    progress.begin("classify", static_cast<std::int64_t>(lines.size()));
    const std::int64_t truncated = engine::for_each_batch(
        *model->tokenizer, lines.texts(), options, [&](std::size_t i) { return lines.where(i); },
        [&](std::size_t first, std::span<const text::ModelInput> inputs,
            std::span<const engine::EncoderText> texts) {
          const engine::EncoderRows rows = encoder->classify(texts);
          common_.json ? json.add(inputs, rows) : table.add(first, inputs, rows);
          progress.update(static_cast<std::int64_t>(first + inputs.size()), "");
        });
    progress.end();
    note_truncated(truncated, lines.size(), options.most_tokens, common_.quiet);
    common_.json ? print_result("{}\n", json.text(truncated)) : write_result(table.text());
  }

 private:
  DeviceOptions device_;
  StrategyOptions strategy_;
  TextOptions texts_;
};

}  // namespace

std::unique_ptr<Command> classify_command() {
  return std::make_unique<Classify>();
}

}  // namespace nibble::cli
