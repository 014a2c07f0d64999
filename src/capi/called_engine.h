#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <unordered_set>

#include "engine/engine.h"
#include "serve/text_jobs.h"

namespace nibble::capi {

/// An engine that works while its caller waits.
class CalledEngine final : public serve::TextJobs {
 public:
  explicit CalledEngine(std::unique_ptr<engine::Engine> engine) : engine_(std::move(engine)) {}

  JobId submit(serve::Job job) override;
  void cancel(JobId id) override { engine_->cancel(id); }

  /// Works until every job has ended; `check` is called before each step. Throws what it or a
  /// callback throws, and what the engine does when it is beyond help: then call drop_all().
  void run_all(const std::function<void()>& check);

  /// Ends all jobs; none of their callbacks is called any more.
  void drop_all();

  engine::Engine& engine() { return *engine_; }

 private:
  void deliver();

  std::unique_ptr<engine::Engine> engine_;
  std::unordered_set<JobId> running_;
  std::deque<std::function<void()>> calls_;  // of jobs' callbacks, in order
  JobId refused_ = 0;  // the last number of a job that the engine did not take
};

}  // namespace nibble::capi
