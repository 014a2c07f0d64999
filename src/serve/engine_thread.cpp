#include "serve/engine_thread.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace nibble::serve {

EngineThread::EngineThread(std::unique_ptr<engine::Engine> engine, Post post)
    : post_(std::move(post)), engine_(std::move(engine)), state_(engine_->state()) {
  thread_ = std::thread([this] { run(); });
}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

// ---- on the I/O thread

EngineThread::JobId EngineThread::enqueue(std::size_t tokens, std::function<void(JobId)> call) {
  const JobId id = ++last_id_;
  prompt_tokens_[id] = tokens;
  tokens_ += tokens;
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({id, [call = std::move(call), id] { call(id); }});
  }
  wake_.notify_one();
  return id;
}

EngineThread::JobId EngineThread::submit(Job job) {
  const std::size_t tokens = job.request.prompt.size();
  return enqueue(tokens,
                 [this, job = std::make_shared<Job>(std::move(job))](JobId id) { start(id, job); });
}

EngineThread::JobId EngineThread::submit(EmbeddingJob job) {
  const std::size_t tokens = job.tokens.size();
  return enqueue(tokens, [this, job = std::move(job)](JobId id) { embed(id, job); });
}

void EngineThread::cancel(JobId id) {
  if (prompt_tokens_.find(id) == prompt_tokens_.end()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    const auto waits = std::find_if(orders_.begin(), orders_.end(),
                                    [id](const Order& order) { return order.id == id; });
    if (waits != orders_.end()) {  // the engine has not seen it
      orders_.erase(waits);
      finished(id);
      return;
    }
    orders_.push_back({0, [this, id] {
                         const auto at = running_.find(id);
                         if (at != running_.end()) {
                           engine_->cancel(at->second);
                         }
                       }});
  }
  wake_.notify_one();
}

void EngineThread::finished(JobId id) {
  const auto at = prompt_tokens_.find(id);
  if (at != prompt_tokens_.end()) {
    tokens_ -= at->second;
    prompt_tokens_.erase(at);
  }
}

engine::EngineState EngineThread::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::chrono::duration<double> EngineThread::step_time() const {
  const Clock::rep began = step_began_;
  return began == 0 ? Clock::duration(0) : Clock::now() - Clock::time_point(Clock::duration(began));
}

std::exception_ptr EngineThread::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// ---- on the engine's thread

void EngineThread::run() {
  try {
    while (take_orders()) {
      step_began_ = Clock::now().time_since_epoch().count();
      engine_->step();
      step_began_ = 0;
      const std::lock_guard lock(mutex_);
      state_ = engine_->state();
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

// Waits until there is something to do; false at the end.
bool EngineThread::take_orders() {
  std::deque<Order> orders;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stop_ || !orders_.empty() || !running_.empty(); });
    if (stop_) {
      return false;
    }
    orders.swap(orders_);
  }
  for (const Order& order : orders) {
    step_began_ = Clock::now().time_since_epoch().count();
    order.call();
    step_began_ = 0;
  }
  return true;
}

void EngineThread::start(JobId id, const std::shared_ptr<Job>& job) {
  engine::Request& request = job->request;
  request.on_piece = [this, job](const engine::Piece& piece) {
    TextPiece kept{std::string(piece.text), {piece.records.begin(), piece.records.end()}};
    post_([job, kept = std::move(kept)]() mutable { job->on_piece(std::move(kept)); });
  };
  request.on_finish = [this, id, job](const engine::Completion& completion) {
    report(id, *job, completion);
  };
  jobs_[id] = job;
  try {
    running_[id] = engine_->submit(std::move(request));
  } catch (const core::Error&) {
    engine::Completion refused;
    refused.reason = engine::FinishReason::kFailed;
    refused.error = std::current_exception();
    report(id, *job, std::move(refused));
  }
}

void EngineThread::report(JobId id, const Job& job, engine::Completion completion) {
  running_.erase(id);
  jobs_.erase(id);
  post_([this, id, call = job.on_finish, completion = std::move(completion)]() mutable {
    finished(id);
    call(std::move(completion));
  });
}

void EngineThread::embed(JobId id, const EmbeddingJob& job) {
  std::vector<float> values;
  std::exception_ptr error;
  try {
    values = engine_->embed(job.tokens);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  post_([this, id, call = job.on_finish, values = std::move(values), error]() mutable {
    finished(id);
    call(std::move(values), error);
  });
}

void EngineThread::fail(const std::exception_ptr& error) {
  step_began_ = 0;
  const auto jobs = std::exchange(jobs_, {});
  for (const auto& [id, job] : jobs) {
    engine::Completion failed;
    failed.reason = engine::FinishReason::kFailed;
    failed.error = error;
    report(id, *job, std::move(failed));
  }
  const std::lock_guard lock(mutex_);
  failure_ = error;
}

}  // namespace nibble::serve
