#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampler.h"
#include "engine/text_search.h"

// The search of transformers 5 (`_beam_search`): of the continuations of all beams the best few are
// kept, more than there are beams. Those among the first `beams` of them that end a text compete
// for places among the finished texts; the best of those that end none are the next beams. Scores
// are single precision, as there.
namespace nibble::engine {
namespace {

constexpr float kOutOfReach = -1.0e9f;  // of what is not there yet, or may not be chosen

struct Beam {
  std::vector<std::int32_t> tokens;
  float score = 0;       // the sum of its log-probabilities
  std::int64_t row = 0;  // of the step, whose logits are its own
};

struct Finished {
  std::vector<std::int32_t> tokens;
  float score = kOutOfReach;
  bool there = false;  // else the place is free
};

// A beam and a token that continues it.
struct Candidate {
  float score = 0;
  std::size_t beam = 0;
  std::int32_t token = 0;
};

// The first of equal ones comes first: candidates are met in the order of beams and tokens.
bool is_better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score
                            : std::pair(a.beam, a.token) < std::pair(b.beam, b.token);
}

void log_softmax(std::span<const float> logits, std::vector<float>& out) {
  out.assign(logits.begin(), logits.end());
  if (has_nan(out)) {
    fail_with_nan();
  }
  const float largest = *std::max_element(out.begin(), out.end());
  double sum = 0;
  for (const float logit : out) {
    sum += std::exp(logit - largest);  // of single precision: errors of terms cancel in the sum
  }
  const double shift = largest + std::log(sum);
  for (float& logit : out) {
    logit = static_cast<float>(static_cast<double>(logit) - shift);
  }
}

class BeamSearch final : public TextSearch {
 public:
  // The beams begin alike, and all but the first out of reach: one row serves them.
  explicit BeamSearch(const WritingOptions& options)
      : options_(options),
        rows_{{-1, options.start}},
        beams_(static_cast<std::size_t>(options.beams), Beam{{options.start}, kOutOfReach, 0}),
        finished_(beams_.size()) {
    beams_.front().score = 0;
  }

  std::span<const SearchRow> rows() const override { return rows_; }

  void advance(const LogitsView& logits) override {
    const std::vector<Candidate> best = best_candidates(logits);
    ++length_;
    std::vector<bool> ends;
    for (const Candidate& candidate : best) {
      ends.push_back(ends_text(options_, candidate.token, length_));
    }
    std::vector<Beam> next = next_beams(best, ends);
    finish(best, ends);
    beams_ = std::move(next);
    improvable_ = improvable_ && can_improve();
    const bool all_end = std::all_of(ends.begin(), ends.end(), [](bool end) { return end; });
    done_ = !improvable_ || all_end || (full() && stops_early());
  }

  bool done() const override { return done_; }
  WrittenText result() const override {
    return {finished_.front().tokens, finished_.front().score};
  }

 private:
  bool stops_early() const { return options_.early_stopping == EarlyStopping::kYes; }
  bool full() const {
    return std::all_of(finished_.begin(), finished_.end(),
                       [](const Finished& text) { return text.there; });
  }

  // So many that enough of them end no text.
  std::size_t wanted() const {
    return beams_.size() * std::max<std::size_t>(2, 1 + options_.ends.size());
  }

  std::vector<Candidate> best_candidates(const LogitsView& logits) {
    std::vector<Candidate> heap;  // the worst of the best in front
    const std::size_t most = wanted();
    for (std::size_t i = 0; i < beams_.size(); ++i) {
      log_softmax(logits.row(beams_[i].row), scores_);
      apply_rules(options_, beams_[i].tokens, scores_);
      for (std::size_t token = 0; token < scores_.size(); ++token) {
        const Candidate candidate{scores_[token] + beams_[i].score, i,
                                  static_cast<std::int32_t>(token)};
        if (heap.size() == most) {
          if (candidate.score < heap.front().score || !is_better(candidate, heap.front())) {
            continue;
          }
          std::pop_heap(heap.begin(), heap.end(), is_better);
          heap.pop_back();
        }
        heap.push_back(candidate);
        std::push_heap(heap.begin(), heap.end(), is_better);
      }
    }
    std::sort_heap(heap.begin(), heap.end(), is_better);
    return heap;
  }

  std::vector<std::int32_t> tokens_of(const Candidate& candidate) const {
    std::vector<std::int32_t> tokens = beams_[candidate.beam].tokens;
    tokens.push_back(candidate.token);
    return tokens;
  }

  // The best that end no text go on.
  std::vector<Beam> next_beams(std::vector<Candidate> best, const std::vector<bool>& ends) {
    for (std::size_t i = 0; i < best.size(); ++i) {
      best[i].score += ends[i] ? kOutOfReach : 0.0f;
    }
    std::stable_sort(best.begin(), best.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    best.resize(std::min(best.size(), beams_.size()));
    std::vector<Beam> next;
    rows_.clear();
    for (const Candidate& candidate : best) {
      next.push_back({tokens_of(candidate), candidate.score, std::ssize(rows_)});
      rows_.push_back({beams_[candidate.beam].row, candidate.token});
    }
    return next;
  }

  // Those of the first that end a text are kept where they are better than what was kept.
  void finish(const std::vector<Candidate>& best, const std::vector<bool>& ends) {
    const bool closed = (full() && stops_early()) || !improvable_;
    const std::size_t first = closed ? 0 : std::min(best.size(), beams_.size());
    for (std::size_t i = 0; i < first; ++i) {
      if (ends[i]) {
        finished_.push_back({tokens_of(best[i]), best[i].score / length_factor(length_ - 1), true});
      }
    }
    std::stable_sort(finished_.begin(), finished_.end(),
                     [](const Finished& a, const Finished& b) { return a.score > b.score; });
    finished_.resize(static_cast<std::size_t>(options_.beams));
  }

  // Of texts of so many tokens behind the start token.
  float length_factor(std::int64_t tokens) const {
    return static_cast<float>(std::pow(static_cast<double>(tokens), options_.length_penalty));
  }

  // Whether the best beam may still become better than the worst finished text.
  bool can_improve() const {
    const bool longest =
        options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
    const std::int64_t length = longest ? options_.max_length : length_;
    const float best = beams_.front().score / length_factor(length - 1);
    return best > (full() ? finished_.back().score : kOutOfReach);
  }

  WritingOptions options_;
  std::vector<SearchRow> rows_;
  std::vector<Beam> beams_;         // the best first
  std::vector<Finished> finished_;  // the same
  std::int64_t length_ = 1;         // of the beams
  bool improvable_ = true;
  bool done_ = false;
  std::vector<float> scores_;
};

}  // namespace

std::unique_ptr<TextSearch> make_beam_search(const WritingOptions& options) {
  return std::make_unique<BeamSearch>(options);
}

}  // namespace nibble::engine
