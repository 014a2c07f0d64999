#include "eval/tasks/likelihood.h"

#include <algorithm>
#include <cmath>

#include "characters/properties.h"
#include "characters/utf8.h"
#include "core/error.h"
#include "eval/log_softmax.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;
using engine::LogitsView;
using Tokens = std::vector<std::int32_t>;

// What Python's str.rstrip removes.
bool is_python_space(char32_t c) {
  return characters::is_white_space(c) || (c >= 0x1c && c <= 0x1f);
}

std::size_t size_without_trailing_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const characters::CodePoint last = characters::decode_utf8_before(text, end);
    if (!is_python_space(last.value)) {
      break;
    }
    end -= last.bytes;
  }
  return end;
}

// The token that stands for an empty context.
std::optional<std::int32_t> prefix_token(const text::Tokenizer& tokenizer) {
  return tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
}

// With the tokens around a text, unless it begins with the first of them in writing.
Tokens encode_with_special(const text::Tokenizer& tokenizer, std::string_view text) {
  text::EncodeOptions options;
  options.add_special = true;
  if (const auto prefix = prefix_token(tokenizer)) {
    const std::string written = tokenizer.decode({&*prefix, 1}, false);
    options.add_special = written.empty() || !text.starts_with(written);
  }
  return tokenizer.encode(text, options);
}

EncodedRequest encode_without_context(const text::Tokenizer& tokenizer,
                                      std::string_view continuation) {
  const auto prefix = prefix_token(tokenizer);
  core::require(prefix.has_value(), ErrorKind::kUsage,
                "the tokenizer has no token that begins or ends a text, which a task without "
                "contexts needs");
  Tokens tokens = tokenizer.encode(continuation, {});
  if (tokens.empty() || tokens.front() != *prefix) {
    return {{*prefix}, std::move(tokens)};
  }
  return {{*prefix}, {tokens.begin() + 1, tokens.end()}};
}

// A request among the texts that are computed.
struct Placement {
  std::size_t text = 0;
  std::int64_t first_row = 0;  // of its continuation, among the wanted rows
};

class BatchScorer {
 public:
  BatchScorer(std::span<const EncodedRequest> requests, std::int64_t max_positions)
      : requests_(requests), likelihoods_(requests.size()) {
    for (const EncodedRequest& request : requests) {
      place(request, max_positions);
    }
  }

  std::vector<Likelihood> score(engine::Runner& runner) {
    std::vector<engine::ScoredText> texts;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      texts.push_back({inputs_[i], static_cast<std::int64_t>(inputs_[i].size()) - wanted_[i]});
    }
    runner.score_texts(texts, [&](std::int64_t first, const LogitsView& logits) {
      const auto count = static_cast<std::int64_t>(requests_.size());
      runner.pool().parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          add_rows(static_cast<std::size_t>(i), first, logits);
        }
      });
    });
    for (const Likelihood& likelihood : likelihoods_) {
      core::require(std::isfinite(likelihood.log_likelihood), ErrorKind::kFailed,
                    "the model computed NaN or infinite logits; its weights may be damaged");
    }
    return std::move(likelihoods_);
  }

 private:
  void place(const EncodedRequest& request, std::int64_t max_positions) {
    const auto count = static_cast<std::int64_t>(request.continuation.size());
    core::require(count <= max_positions, ErrorKind::kFailed,
                  "a continuation of {} tokens is longer than the {} that the model was made for",
                  count, max_positions);
    Tokens input = request.context;
    input.insert(input.end(), request.continuation.begin(), request.continuation.end() - 1);
    const auto surplus = static_cast<std::int64_t>(input.size()) - max_positions;
    input.erase(input.begin(), input.begin() + std::max<std::int64_t>(surplus, 0));
    if (inputs_.empty() || wanted_.back() != count || inputs_.back() != input) {
      inputs_.push_back(std::move(input));
      wanted_.push_back(count);
      rows_ += count;
    }
    placements_.push_back({inputs_.size() - 1, rows_ - count});
  }

  // What rows [first, first + logits.rows) add to a request.
  void add_rows(std::size_t index, std::int64_t first, const LogitsView& logits) {
    const Tokens& continuation = requests_[index].continuation;
    const std::int64_t start = placements_[index].first_row;
    const auto stop = start + static_cast<std::int64_t>(continuation.size());
    Likelihood& likelihood = likelihoods_[index];
    for (std::int64_t row = std::max(start, first); row < std::min(stop, first + logits.rows);
         ++row) {
      const std::span<const float> values = logits.row(row - first);
      const auto token =
          static_cast<std::size_t>(continuation[static_cast<std::size_t>(row - start)]);
      core::require(token < values.size(), ErrorKind::kFailed,
                    "token id {} lies outside the vocabulary of {}", token, values.size());
      likelihood.log_likelihood += static_cast<double>(values[token]) - log_sum_exp(values);
      likelihood.greedy = likelihood.greedy && arg_max(values) == token;
    }
  }

  std::span<const EncodedRequest> requests_;
  std::vector<Likelihood> likelihoods_;
  std::vector<Placement> placements_;
  std::vector<Tokens> inputs_;
  std::vector<std::int64_t> wanted_;  // rows of each input, its last ones
  std::int64_t rows_ = 0;
};

}  // namespace

EncodedRequest encode_request(const text::Tokenizer& tokenizer, const LikelihoodRequest& request) {
  EncodedRequest encoded;
  if (request.context.empty()) {
    encoded = encode_without_context(tokenizer, request.continuation);
  } else {
    const std::string_view context(request.context.data(),
                                   size_without_trailing_space(request.context));
    encoded.context = encode_with_special(tokenizer, context);
    const Tokens whole = encode_with_special(tokenizer, request.context + request.continuation);
    const std::size_t split = std::min(encoded.context.size(), whole.size());
    encoded.continuation.assign(whole.begin() + static_cast<std::ptrdiff_t>(split), whole.end());
  }
  core::require(!encoded.context.empty() && !encoded.continuation.empty(), ErrorKind::kFailed,
                "the tokenizer leaves no token for the {}",
                encoded.context.empty() ? "context" : "continuation");
  return encoded;
}

std::vector<Likelihood> score_requests(engine::Runner& runner,
                                       std::span<const EncodedRequest> requests,
                                       std::int64_t max_positions) {
  return BatchScorer(requests, max_positions).score(runner);
}

}  // namespace nibble::eval
