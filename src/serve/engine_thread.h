#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "serve/text_jobs.h"

namespace nibble::serve {

/// A text to embed. Exactly one of what `on_finish` gets is there.
struct EmbeddingJob {
  std::vector<std::int32_t> tokens;
  std::function<void(std::vector<float>, std::exception_ptr)> on_finish;
};

/// Runs an engine on a thread of its own. Embeddings take half of its time at the
/// most while there are texts to write. All calls come from one thread, the I/O thread, but where
/// said otherwise.
class EngineThread final : public TextJobs {
 public:
  /// Runs a call on the I/O thread.
  using Post = std::function<void(std::function<void()>)>;

  EngineThread(std::unique_ptr<engine::Engine> engine, Post post);
  /// Cancels what runs, and waits for the end of the step.
  ~EngineThread() override;
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  JobId submit(Job job) override;
  JobId submit(EmbeddingJob job);
  void cancel(JobId id) override;

  /// Jobs that have not finished, and the tokens of their prompts.
  std::size_t jobs() const { return prompt_tokens_.size(); }
  std::size_t tokens() const { return tokens_; }

  /// As it was after the last step.
  engine::EngineState state() const;
  /// How long the present step has taken; zero between steps.
  std::chrono::duration<double> step_time() const;
  /// Why the engine has ended for good; null while it runs.
  std::exception_ptr failure() const;
  /// Why the last text or embedding failed, where that was no fault of the request and no lack of
  /// memory; null when it did not.
  std::exception_ptr fault() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Order {
    JobId id = 0;
    std::function<void()> call;
  };
  struct Embedded {
    JobId id = 0;
    EmbeddingJob job;
    std::shared_ptr<engine::Engine::Embedding> embedding;  // once it has begun
  };

  JobId new_job(std::size_t tokens);
  void order(JobId id, std::function<void()> call);
  bool withdraw(JobId id);
  void finished(JobId id);

  void run();
  bool take_orders();
  void work();
  void start(JobId id, const std::shared_ptr<Job>& job);
  void report(JobId id, const Job& job, engine::Completion completion);
  void embed_part();
  void finish_embedding(std::vector<float> values, const std::exception_ptr& error);
  void drop_embedding(JobId id);
  void note_outcome(const std::exception_ptr& error);
  void fail(const std::exception_ptr& error);

  Post post_;

  // Of the I/O thread.
  JobId last_id_ = 0;
  std::unordered_map<JobId, std::size_t> prompt_tokens_;
  std::size_t tokens_ = 0;

  // Of the engine's thread.
  std::unique_ptr<engine::Engine> engine_;
  std::unordered_map<JobId, engine::RequestId> running_;
  std::unordered_map<JobId, std::shared_ptr<Job>> jobs_;
  std::optional<Embedded> embedded_;  // that is under way
  Clock::duration lead_{};            // that texts have to make up for an embedding's part

  // Of both.
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Order> orders_;
  std::deque<Embedded> embeddings_;  // that have not begun
  bool stop_ = false;
  engine::EngineState state_;
  std::exception_ptr failure_;
  std::exception_ptr fault_;
  std::atomic<Clock::rep> step_began_{0};  // 0: none

  std::thread thread_;
};

}  // namespace nibble::serve
