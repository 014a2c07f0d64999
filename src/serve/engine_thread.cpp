#include "serve/engine_thread.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/start_thread.h"

namespace nibble::serve {
namespace {

// Whether an error says something about the server, not about a request or the memory that is free
// just now.
bool is_fault(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const core::Error& known) {
    return known.kind() != core::ErrorKind::kUsage && known.kind() != core::ErrorKind::kOutOfMemory;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (...) {
    return true;
  }
}

}  // namespace

EngineThread::EngineThread(std::unique_ptr<engine::Engine> engine, Post post)
    : post_(std::move(post)), engine_(std::move(engine)), state_(engine_->state()) {
  thread_ = core::start_thread([this] { run(); });
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

EngineThread::JobId EngineThread::new_job(std::size_t tokens) {
  const JobId id = ++last_id_;
  prompt_tokens_[id] = tokens;
  tokens_ += tokens;
  return id;
}

void EngineThread::order(JobId id, std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({id, std::move(call)});
  }
  wake_.notify_one();
}

EngineThread::JobId EngineThread::submit(Job job) {
  const JobId id = new_job(job.request.prompt.size());
  order(id, [this, id, job = std::make_shared<Job>(std::move(job))] { start(id, job); });
  return id;
}

EngineThread::JobId EngineThread::submit(EmbeddingJob job) {
  const JobId id = new_job(job.tokens.size());
  {
    const std::lock_guard lock(mutex_);
    embeddings_.push_back({id, std::move(job), nullptr});
  }
  wake_.notify_one();
  return id;
}

void EngineThread::cancel(JobId id) {
  if (prompt_tokens_.find(id) == prompt_tokens_.end()) {
    return;
  }
  if (withdraw(id)) {
    finished(id);
    return;
  }
  order(0, [this, id] {
    const auto at = running_.find(id);
    if (at != running_.end()) {
      engine_->cancel(at->second);
    }
    drop_embedding(id);
  });
}

// Takes back what the engine has not seen.
bool EngineThread::withdraw(JobId id) {
  const auto is_it = [id](const auto& waits) { return waits.id == id; };
  const std::lock_guard lock(mutex_);
  return std::erase_if(orders_, is_it) + std::erase_if(embeddings_, is_it) > 0;
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

std::exception_ptr EngineThread::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

// ---- on the engine's thread

void EngineThread::run() {
  try {
    while (take_orders()) {
      step_began_ = Clock::now().time_since_epoch().count();
      work();
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
    wake_.wait(lock, [this] {
      return stop_ || !orders_.empty() || !running_.empty() || embedded_ || !embeddings_.empty();
    });
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
  const std::lock_guard lock(mutex_);
  if (!embedded_ && !embeddings_.empty()) {
    embedded_ = std::move(embeddings_.front());
    embeddings_.pop_front();
  }
  return true;
}

// A step, or a part of an embedding, which then waits until steps have had as much time.
void EngineThread::work() {
  const bool both = embedded_ && !running_.empty();
  const bool embeds = embedded_ && (!both || lead_ == Clock::duration(0));
  const auto begin = Clock::now();
  if (embeds) {
    embed_part();
  } else {
    engine_->step();
  }
  const Clock::duration time = Clock::now() - begin;
  lead_ = both ? std::max(Clock::duration(0), lead_ + (embeds ? time : -time)) : Clock::duration(0);
}

void EngineThread::start(JobId id, const std::shared_ptr<Job>& job) {
  engine::Request& request = job->request;
  request.on_piece = [this, job](const engine::Piece& piece) {
    post_([job, kept = TextPiece::of(piece)]() mutable { job->on_piece(std::move(kept)); });
  };
  request.on_finish = [this, id, job](const engine::Completion& completion) {
    report(id, *job, completion);
  };
  jobs_[id] = job;
  try {
    running_[id] = engine_->submit(std::move(request));
  } catch (const std::exception&) {
    report(id, *job, refused_completion());
  }
}

void EngineThread::report(JobId id, const Job& job, engine::Completion completion) {
  running_.erase(id);
  jobs_.erase(id);
  if (completion.reason != engine::FinishReason::kCancelled) {
    note_outcome(completion.error);
  }
  post_([this, id, call = job.on_finish, completion = std::move(completion)]() mutable {
    finished(id);
    call(std::move(completion));
  });
}

void EngineThread::embed_part() {
  try {
    if (!embedded_->embedding) {
      embedded_->embedding = engine_->begin_embedding(std::move(embedded_->job.tokens));
    }
    if (auto values = engine_->advance(*embedded_->embedding)) {
      finish_embedding(*std::move(values), nullptr);
    }
    return;
  } catch (const std::exception&) {
    finish_embedding({}, std::current_exception());
  }
  engine_->step();  // throws when the engine is beyond help
}

void EngineThread::finish_embedding(std::vector<float> values, const std::exception_ptr& error) {
  note_outcome(error);
  const Embedded done = *std::exchange(embedded_, std::nullopt);
  post_(
      [this, id = done.id, call = done.job.on_finish, values = std::move(values), error]() mutable {
        finished(id);
        call(std::move(values), error);
      });
}

void EngineThread::drop_embedding(JobId id) {
  if (embedded_ && embedded_->id == id) {
    embedded_.reset();
    post_([this, id] { finished(id); });
  }
}

void EngineThread::note_outcome(const std::exception_ptr& error) {
  if (error && !is_fault(error)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  fault_ = error;
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
