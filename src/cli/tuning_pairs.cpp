#include <algorithm>
#include <filesystem>

#include "cli/tuning_texts.h"
#include "core/error.h"
#include "engine/text_to_text.h"
#include "engine/writing_options.h"
#include "eval/seq2seq/run_seq2seq.h"
#include "io/file_descriptor.h"
#include "io/text_file.h"
#include "text/model_input.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

// A target as the decoder writes it: behind its start token, with an end token.
text::ModelInput encode_target(const models::Model& model, const eval::TextPair& pair,
                               const std::vector<std::int32_t>& ends, std::int64_t most) {
  text::ModelInput input = text::encode_for_model(*model.tokenizer, pair.targets.front(),
                                                  std::nullopt, {.most_tokens = most});
  auto& ids = input.ids;
  if (!ids.empty() && ids.front() == model.network.config.decoder_start) {
    ids.erase(ids.begin());
  }
  if (std::find_first_of(ids.begin(), ids.end(), ends.begin(), ends.end()) != ids.end()) {
    return input;
  }
  if (std::ssize(ids) == most) {
    ids.pop_back();
    input.truncated = true;
  }
  ids.push_back(ends.front());
  return input;
}

// Word accuracy and phoneme error rate of what is written.
tune::JudgeStudent judge_by(const fs::path& file, const TextChoice& choice) {
  return [name = io::shown_text(file), choice, pairs = eval::read_text_pairs(file, 0)](
             const std::shared_ptr<const models::Model>& model) {
    const auto writer = engine::make_text_to_text(model, choice.runner());
    const eval::Seq2SeqScore score =
        eval::run_seq2seq(
            *writer, *model, pairs,
            {engine::writing_options(*model), "", eval::most_tokens(*model, choice.max_length)},
            core::silent_progress())
            .score;
    return fmt::format("{} of {}, word_acc {:.4f}, per {:.4f}, rougeL {:.4f}", score.items, name,
                       score.word_accuracy, score.phoneme_error_rate, score.rouge_l);
  };
}

}  // namespace

TuningTexts read_pair_texts(const models::Model& model, const std::string& data,
                            const TextChoice& choice) {
  const bool is_folder = fs::is_directory(data);
  const fs::path file = is_folder ? fs::path(data) / "train.tsv" : fs::path(data);
  const std::vector<std::int32_t> ends = engine::writing_options(model).ends;
  core::require(!ends.empty(), core::ErrorKind::kUsage,
                "{} has no end token that a text could end with", io::shown(model.path));
  TuningTexts result;
  result.most_tokens = eval::most_tokens(model, choice.max_length);
  for (const eval::TextPair& pair : drawn(eval::read_text_pairs(file, 0), choice)) {
    const text::ModelInput source = text::encode_for_model(
        *model.tokenizer, pair.source, std::nullopt, {.most_tokens = result.most_tokens});
    core::require(!source.ids.empty(), core::ErrorKind::kFailed, "{}: the text has no token",
                  pair.where);
    const text::ModelInput target = encode_target(model, pair, ends, result.most_tokens);
    result.truncated += source.truncated || target.truncated ? 1 : 0;
    result.texts.push_back({source.ids, {}, {}, target.ids});
  }
  if (const fs::path judged = fs::path(data) / "dev.tsv"; is_folder && fs::exists(judged)) {
    result.judge = judge_by(judged, choice);
  }
  return result;
}

}  // namespace nibble::cli
