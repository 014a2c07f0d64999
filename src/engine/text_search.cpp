#include "engine/text_search.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/error.h"
#include "engine/sampler.h"

namespace nibble::engine {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

void forbid(std::span<float> scores, std::int32_t token) {
  scores[static_cast<std::size_t>(token)] = kImpossible;
}

void allow_only(std::span<float> scores, std::span<const std::int32_t> tokens) {
  std::fill(scores.begin(), scores.end(), kImpossible);
  for (const std::int32_t token : tokens) {
    scores[static_cast<std::size_t>(token)] = 0.0f;
  }
}

// Tokens that would end a run of n tokens which has come before.
void forbid_repetitions(std::span<const std::int32_t> written, std::size_t n,
                        std::span<float> scores) {
  if (written.size() < n) {
    return;
  }
  const auto last = written.last(n - 1);
  for (std::size_t begin = 0; begin + n <= written.size(); ++begin) {
    const auto run = written.subspan(begin, n);
    if (std::equal(last.begin(), last.end(), run.begin())) {
      forbid(scores, run.back());
    }
  }
}

// Draws tokens, as transformers does with do_sample.
class Draws {
 public:
  explicit Draws(const DrawOptions& options)
      : temperature_(options.temperature), sampler_(behind_temperature(options)) {}

  std::int32_t next(std::span<float> scores) {
    for (float& score : scores) {
      score /= temperature_;
    }
    rank(scores, sampler_.wanted(), ranked_);
    core::require(!ranked_.empty(), core::ErrorKind::kFailed,
                  "no token may follow: repetitions and ends are all forbidden");
    return sampler_.sample(ranked_);
  }

 private:
  static SamplingOptions behind_temperature(const DrawOptions& options) {
    SamplingOptions sampling = sampling_options(options);
    sampling.temperature = 1.0f;
    return sampling;
  }

  float temperature_;
  Sampler sampler_;
  std::vector<ops::RankedToken> ranked_;
};

// One text, whose next token is the likeliest, or drawn.
class SingleSearch final : public TextSearch {
 public:
  explicit SingleSearch(const WritingOptions& options)
      : options_(options), row_{-1, options.start}, text_{{options.start}, 0} {
    if (options.samples) {
      draws_.emplace(options.draw);
    }
  }

  std::span<const SearchRow> rows() const override { return {&row_, 1}; }

  void advance(const LogitsView& logits) override {
    scores_.assign(logits.row(0).begin(), logits.row(0).end());
    if (has_nan(scores_)) {
      fail_with_nan();
    }
    apply_rules(options_, text_.tokens, scores_);
    row_ = {0, draws_ ? draws_->next(scores_) : likeliest()};
    text_.tokens.push_back(row_.token);
    done_ = ends_text(options_, row_.token, std::ssize(text_.tokens));
  }

  bool done() const override { return done_; }
  WrittenText result() const override { return text_; }

 private:
  std::int32_t likeliest() const {
    return static_cast<std::int32_t>(std::max_element(scores_.begin(), scores_.end()) -
                                     scores_.begin());
  }

  WritingOptions options_;
  SearchRow row_;
  WrittenText text_;
  std::optional<Draws> draws_;
  std::vector<float> scores_;
  bool done_ = false;
};

}  // namespace

void apply_rules(const WritingOptions& options, std::span<const std::int32_t> written,
                 std::span<float> scores) {
  const std::int64_t length = std::ssize(written);
  if (options.no_repeat_ngram > 0) {
    forbid_repetitions(written, static_cast<std::size_t>(options.no_repeat_ngram), scores);
  }
  if (length < options.min_length) {
    for (const std::int32_t end : options.ends) {
      forbid(scores, end);
    }
  }
  if (options.forced_first && length == 1) {
    allow_only(scores, {&*options.forced_first, 1});
  }
  if (!options.forced_last.empty() && length == options.max_length - 1) {
    allow_only(scores, options.forced_last);
  }
}

bool ends_text(const WritingOptions& options, std::int32_t token, std::int64_t length) {
  return length >= options.max_length ||
         std::find(options.ends.begin(), options.ends.end(), token) != options.ends.end();
}

std::unique_ptr<TextSearch> make_text_search(const WritingOptions& options) {
  return options.beams > 1 ? make_beam_search(options) : std::make_unique<SingleSearch>(options);
}

}  // namespace nibble::engine
