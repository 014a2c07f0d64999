#include "eval/tasks/run_task.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "eval/tasks/task_files.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kBatchTokens = 512;  // as many as keep the kernels busy

Estimate mean_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  Estimate estimate;
  estimate.value = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) {
    squares += (value - estimate.value) * (value - estimate.value);
  }
  estimate.standard_error = std::sqrt(squares / (count - 1) / count);
  return estimate;
}

// 1 when the largest of the choices' scores, of equal ones the first, belongs to the right one.
template <typename Score>
double is_right(const TaskItem& item, const Score& score) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < static_cast<std::int64_t>(item.requests.size()); ++i) {
    best = score(static_cast<std::size_t>(i)) > score(static_cast<std::size_t>(best)) ? i : best;
  }
  return best == item.gold ? 1 : 0;
}

std::vector<EncodedRequest> encode_item(const text::Tokenizer& tokenizer, const TaskItem& item,
                                        std::int64_t max_positions) {
  std::vector<EncodedRequest> encoded;
  for (const LikelihoodRequest& request : item.requests) {
    try {
      encoded.push_back(encode_request(tokenizer, request));
    } catch (const core::Error& error) {
      core::fail(error.kind(), "{}: {}", item.where, error.what());
    }
    const std::size_t count = encoded.back().continuation.size();
    core::require(count <= static_cast<std::size_t>(max_positions), core::ErrorKind::kFailed,
                  "{}: a choice of {} tokens is longer than the {} that the model was made for",
                  item.where, count, max_positions);
  }
  return encoded;
}

// Collects requests until they fill a batch.
class Batch {
 public:
  bool empty() const { return requests_.empty(); }
  bool full() const { return tokens_ >= kBatchTokens; }

  void add(std::vector<EncodedRequest> item) {
    sizes_.push_back(item.size());
    for (EncodedRequest& request : item) {
      tokens_ += request.context.size() + request.continuation.size();
      requests_.push_back(std::move(request));
    }
  }

  void score(engine::Runner& runner, std::int64_t max_positions,
             std::vector<std::vector<Likelihood>>& results) {
    const std::vector<Likelihood> scores = score_requests(runner, requests_, max_positions);
    auto at = scores.begin();
    for (const std::size_t size : sizes_) {
      results.emplace_back(at, at + static_cast<std::ptrdiff_t>(size));
      at += static_cast<std::ptrdiff_t>(size);
    }
    *this = {};
  }

 private:
  std::vector<EncodedRequest> requests_;
  std::vector<std::size_t> sizes_;  // requests of each item
  std::size_t tokens_ = 0;
};

TaskScore score_part(engine::Runner& runner, const models::Model& model, const Task& task,
                     std::span<const TaskItem> items,
                     const std::function<void(std::int64_t)>& done) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto likelihoods = score_items(runner, model, items, done);
  TaskScore score = summarize(task, items, likelihoods);
  score.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return score;
}

}  // namespace

std::vector<std::vector<Likelihood>> score_items(engine::Runner& runner, const models::Model& model,
                                                 std::span<const TaskItem> items,
                                                 const std::function<void(std::int64_t)>& done) {
  const std::int64_t max_positions = model.network.config.max_positions;
  std::vector<std::vector<Likelihood>> results;
  Batch batch;
  for (const TaskItem& item : items) {
    batch.add(encode_item(*model.tokenizer, item, max_positions));
    if (batch.full()) {
      batch.score(runner, max_positions, results);
      done(static_cast<std::int64_t>(results.size()));
    }
  }
  if (!batch.empty()) {
    batch.score(runner, max_positions, results);
    done(static_cast<std::int64_t>(results.size()));
  }
  return results;
}

TaskScore summarize(const Task& task, std::span<const TaskItem> items,
                    std::span<const std::vector<Likelihood>> likelihoods) {
  std::vector<double> right;
  std::vector<double> right_normalized;
  std::vector<double> sums;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::vector<Likelihood>& choices = likelihoods[i];
    const auto score = [&](std::size_t c) { return choices[c].log_likelihood; };
    const auto normalized = [&](std::size_t c) {
      return score(c) / static_cast<double>(items[i].choice_lengths[c]);
    };
    right.push_back(task.metrics == TaskMetrics::kLastWord ? choices[0].greedy
                                                           : is_right(items[i], score));
    right_normalized.push_back(is_right(items[i], normalized));
    sums.push_back(score(0));
  }
  TaskScore result;
  result.name = task.name;
  result.items = static_cast<std::int64_t>(items.size());
  result.accuracy = mean_of(right);
  if (task.metrics == TaskMetrics::kNormalizedAccuracy) {
    result.normalized_accuracy = mean_of(right_normalized);
  }
  if (task.metrics == TaskMetrics::kLastWord) {
    const Estimate mean = mean_of(sums);
    const double perplexity = std::exp(-mean.value);
    result.perplexity = Estimate{perplexity, perplexity * mean.standard_error};
  }
  return result;
}

TaskScore summarize(const Task& task, std::vector<TaskScore> parts) {
  TaskScore result;
  result.name = task.name;
  double pooled = 0;
  for (const TaskScore& part : parts) {
    const auto items = static_cast<double>(part.items);
    const double error = part.accuracy.standard_error;
    result.items += part.items;
    result.accuracy.value += part.accuracy.value;
    pooled += (items - 1) * items * error * error;
    result.seconds += part.seconds;
  }
  result.accuracy.value /= static_cast<double>(parts.size());
  const auto items = static_cast<double>(result.items);
  result.accuracy.standard_error =
      std::sqrt(pooled / (items - static_cast<double>(parts.size())) / items);
  result.parts = std::move(parts);
  return result;
}

TaskScore run_task(engine::Runner& runner, const models::Model& model, const Task& task,
                   const std::filesystem::path& folder, std::int64_t limit,
                   core::ProgressSink& progress) {
  std::vector<TaskPart> parts = find_task_parts(folder, task);
  std::vector<std::vector<TaskItem>> items;  // all files are read before the first is scored
  std::int64_t total = 0;
  for (const TaskPart& part : parts) {
    items.push_back(read_task_items(part.file, task, limit));
    total += static_cast<std::int64_t>(items.back().size());
  }
  std::vector<TaskScore> scores;
  std::int64_t before = 0;
  progress.begin(task.name, total);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    scores.push_back(score_part(runner, model, task, items[i], [&](std::int64_t done) {
      progress.update(before + done, parts.size() > 1 ? parts[i].name : "");
    }));
    scores.back().name = parts[i].name;
    before += scores.back().items;
  }
  progress.end();
  const bool single = parts.size() == 1 && parts.front().name == task.name;
  return single ? std::move(scores.front()) : summarize(task, std::move(scores));
}

}  // namespace nibble::eval
