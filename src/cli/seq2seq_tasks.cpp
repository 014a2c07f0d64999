#include "cli/seq2seq_tasks.h"

#include <algorithm>

#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "cli/text_lines.h"
#include "core/json.h"
#include "eval/metrics/sample_statistics.h"
#include "io/atomic_file.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

using eval::Seq2SeqRun;
using eval::Seq2SeqScore;

std::string task_name(const Seq2SeqCall& call) {
  return std::filesystem::path(call.file).stem().string();
}

report::Table table(const Seq2SeqCall& call, const Seq2SeqRun& run) {
  const Seq2SeqScore& score = run.score;
  report::Table table;
  table.columns = {"task", "n", "word_acc", "per", "rouge1", "rouge2", "rougeL", "s"};
  std::vector<std::string> row = {fmt::format("{}", core::printable(task_name(call))),
                                  std::to_string(score.items)};
  for (const double value :
       {score.word_accuracy, score.phoneme_error_rate, score.rouge1, score.rouge2, score.rouge_l}) {
    row.push_back(fmt::format("{:.4f}", value));
  }
  row.push_back(fmt::format("{:.1f}", run.seconds));
  table.rows.push_back(std::move(row));
  return table;
}

core::Json json_of(const Seq2SeqCall& call, const models::Model& model,
                   const engine::WritingOptions& writing, const Seq2SeqRun& run) {
  const Seq2SeqScore& score = run.score;
  const core::Json task = {
      {"task", task_name(call)},
      {"n", score.items},
      {"beams", writing.beams},
      {"word_accuracy", score.word_accuracy},
      {"word_accuracy_stderr", eval::share_standard_error(score.word_accuracy, score.items)},
      {"phoneme_error_rate", score.phoneme_error_rate},
      {"rouge1", score.rouge1},
      {"rouge2", score.rouge2},
      {"rougeL", score.rouge_l},
      {"truncated", run.truncated},
      {"seconds", run.seconds}};
  return {{"model", call.model},
          {"recipe", model.compression.recipe.empty() ? "none" : model.compression.recipe},
          {"limit", call.limit},
          {"tasks", core::Json::array({task})}};
}

// Line breaks within a text become spaces.
void write_lines(const std::string& file, std::vector<std::string> texts) {
  std::string lines;
  for (std::string& text : texts) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    lines += text + '\n';
  }
  io::write_file_atomically(file, lines);
}

}  // namespace

void run_seq2seq_tasks(const Seq2SeqCall& call, const models::Model& model,
                       engine::TextToText& writer, eval::Seq2SeqOptions options) {
  TerminalProgress progress(call.quiet);
  const auto pairs = eval::read_text_pairs(call.file, call.limit);
  options.most_tokens = eval::most_tokens(model, call.max_length);
  const Seq2SeqRun run = eval::run_seq2seq(writer, model, pairs, options, progress);
  note_truncated(run.truncated, pairs.size(), options.most_tokens, call.quiet);
  if (!call.output.empty()) {
    write_lines(call.output, run.written);
  }
  if (call.json) {
    print_result("{}\n", json_of(call, model, options.writing, run).dump());
  } else {
    write_result(report::to_text(table(call, run)));
  }
}

}  // namespace nibble::cli
