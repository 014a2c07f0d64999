#include "eval/seq2seq/run_seq2seq.h"

#include <algorithm>
#include <chrono>

#include "characters/utf8.h"
#include "core/error.h"
#include "engine/language_codes.h"
#include "eval/metrics/edit_distance.h"
#include "eval/metrics/rouge.h"
#include "text/model_input.h"

namespace nibble::eval {
namespace {

constexpr std::int64_t kStepRows = 64;         // of texts times beams, at the most
constexpr std::int64_t kStepTokens = 1 << 15;  // that these may write, at the most

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    characters::next_code_point(text, at);
    all.push_back(text.substr(begin, at - begin));
  }
  return all;
}

struct Edits {
  std::int64_t distance = 0;
  std::int64_t length = 0;  // of the target

  double rate() const { return static_cast<double>(distance) / static_cast<double>(length); }
};

// To the target that is nearest for its length.
Edits edits_to(const TextPair& pair, std::string_view written) {
  const auto said = characters_of(written);
  Edits best;
  for (const std::string& target : pair.targets) {
    const auto wanted = characters_of(target);
    core::require(!wanted.empty(), core::ErrorKind::kUsage, "{}: a target is empty", pair.where);
    const Edits edits{edit_distance(said, wanted), std::ssize(wanted)};
    if (best.length == 0 || edits.rate() < best.rate()) {
      best = edits;
    }
  }
  return best;
}

template <typename Rouge>
double best_f1(const TextPair& pair, Rouge rouge) {
  double best = 0;
  for (const std::string& target : pair.targets) {
    best = std::max(best, rouge(target).f1);
  }
  return best;
}

// Texts that are written together.
std::size_t batch_texts(const engine::WritingOptions& options) {
  const std::int64_t rows = std::min(kStepRows, kStepTokens / options.max_length);
  return static_cast<std::size_t>(std::max<std::int64_t>(rows / options.beams, 1));
}

text::ModelInput encode(const text::Tokenizer& tokenizer, const TextPair& pair,
                        const Seq2SeqOptions& options) {
  text::ModelInput input = text::encode_for_model(tokenizer, pair.source, std::nullopt,
                                                  {.most_tokens = options.most_tokens});
  core::require(!input.ids.empty(), core::ErrorKind::kFailed, "{}: the text has no token",
                pair.where);
  if (!options.source_language.empty()) {
    engine::set_source_language(input, tokenizer, options.source_language);
  }
  return input;
}

}  // namespace

Seq2SeqScore score_written(std::span<const TextPair> pairs, std::span<const std::string> written) {
  core::require(!pairs.empty() && pairs.size() == written.size(), core::ErrorKind::kUsage,
                "a measure needs as many texts as pairs, and at least one; got {} and {}",
                written.size(), pairs.size());
  Seq2SeqScore score;
  score.items = std::ssize(pairs);
  Edits edits;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& targets = pairs[i].targets;
    const std::string& text = written[i];
    score.word_accuracy += std::find(targets.begin(), targets.end(), text) == targets.end() ? 0 : 1;
    const Edits own = edits_to(pairs[i], text);
    edits.distance += own.distance;
    edits.length += own.length;
    const auto n_grams = [&](int n) {
      return best_f1(pairs[i], [&](const std::string& target) { return rouge_n(target, text, n); });
    };
    score.rouge1 += n_grams(1);
    score.rouge2 += n_grams(2);
    score.rouge_l +=
        best_f1(pairs[i], [&](const std::string& target) { return rouge_l(target, text); });
  }
  score.phoneme_error_rate = edits.rate();
  for (double* mean : {&score.word_accuracy, &score.rouge1, &score.rouge2, &score.rouge_l}) {
    *mean /= static_cast<double>(score.items);
  }
  return score;
}

std::int64_t most_tokens(const models::Model& model, std::int64_t max_length) {
  const std::int64_t positions = model.network.config.max_positions;
  const std::int64_t most =
      std::min(positions, text::longest_input(*model.tokenizer).value_or(positions));
  return max_length > 0 ? std::min(most, max_length) : most;
}

Seq2SeqRun run_seq2seq(engine::TextToText& writer, const models::Model& model,
                       std::span<const TextPair> pairs, const Seq2SeqOptions& options,
                       core::ProgressSink& progress) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const std::size_t together = batch_texts(options.writing);
  Seq2SeqRun run;
  progress.begin("write", std::ssize(pairs));
  for (std::size_t first = 0; first < pairs.size(); first += together) {
    std::vector<text::ModelInput> inputs;
    std::vector<std::span<const std::int32_t>> sources;
    for (const TextPair& pair : pairs.subspan(first, std::min(together, pairs.size() - first))) {
      inputs.push_back(encode(*model.tokenizer, pair, options));
      run.truncated += inputs.back().truncated ? 1 : 0;
    }
    for (const text::ModelInput& input : inputs) {
      sources.emplace_back(input.ids);
    }
    for (const engine::WrittenText& text : engine::write_texts(writer, sources, options.writing)) {
      run.written.push_back(engine::text_of(text, options.writing, *model.tokenizer));
    }
    progress.update(std::ssize(run.written), "");
  }
  progress.end();
  run.score = score_written(pairs, run.written);
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return run;
}

}  // namespace nibble::eval
