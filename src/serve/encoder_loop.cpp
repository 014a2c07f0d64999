#include "serve/encoder_loop.h"

#include <utility>

#include "core/start_thread.h"

namespace nibble::serve {

using Clock = std::chrono::steady_clock;

EncoderLoop::EncoderLoop(engine::Encoder& encoder, std::int64_t step_tokens, Done done)
    : encoder_(encoder), step_tokens_(step_tokens), done_(std::move(done)) {
  thread_ = core::start_thread([this] { run(); });
}

EncoderLoop::~EncoderLoop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool EncoderLoop::post(const JobPointer& job) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size_of(job->client) >= kMaxOfClient) {
      return false;
    }
    queue_.push(job->client, job);
  }
  wake_.notify_one();
  return true;
}

Clock::duration EncoderLoop::step_time() const {
  const Clock::rep began = step_began_;
  return began == 0 ? Clock::duration::zero()
                    : Clock::now() - Clock::time_point(Clock::duration(began));
}

void EncoderLoop::run() {
  for (;;) {
    std::vector<Part> step;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || late_ || !queue_.empty(); });
      if (stop_) {
        return;
      }
      step = next_step();
    }
    if (!step.empty()) {
      running_ = std::ssize(step);
      step_began_ = Clock::now().time_since_epoch().count();
      compute(step);
      step_began_ = 0;
      running_ = 0;
    }
    for (Part& part : step) {
      settle(part);
    }
  }
}

// With the lock. A job of which a part fits is the last of a step; one of which nothing does begins
// the next.
std::vector<EncoderLoop::Part> EncoderLoop::next_step() {
  std::vector<Part> step;
  std::int64_t room = step_tokens_;
  while (late_ || !queue_.empty()) {
    JobPointer job = late_ ? std::exchange(late_, nullptr) : queue_.pop().second;
    if (job->ended) {
      queue_.finish(job->client);
      continue;
    }
    const std::size_t count = job->inputs_in(room, step.empty());
    if (count == 0 && job->inputs_left() > 0) {
      late_ = std::move(job);
      break;
    }
    room -= job->tokens_of_next(count);
    const bool all = count == job->inputs_left();
    step.push_back({std::move(job), count, nullptr});
    if (!all) {
      break;
    }
  }
  return step;
}

void EncoderLoop::compute(std::vector<Part>& step) {
  for (const auto output : {EncoderJob::Output::kEmbeddings, EncoderJob::Output::kLogits}) {
    std::vector<Part*> parts;
    for (Part& part : step) {
      if (part.job->output == output && part.count > 0) {
        parts.push_back(&part);
      }
    }
    if (!parts.empty() && !try_output(parts) && parts.size() > 1) {  // the fault of one, perhaps
      for (Part*& part : parts) {
        try_output({&part, 1});
      }
    }
  }
}

bool EncoderLoop::try_output(std::span<Part*> parts) {
  std::exception_ptr error;
  try {
    compute_output(parts);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  if (parts.size() == 1 && error) {
    parts.front()->error = error;
  }
  return !error;
}

void EncoderLoop::compute_output(std::span<Part*> parts) {
  std::vector<engine::EncoderText> texts;
  for (const Part* part : parts) {
    part->job->append_texts(part->count, texts);
  }
  const engine::EncoderRows rows = parts.front()->job->output == EncoderJob::Output::kLogits
                                       ? encoder_.classify(texts)
                                       : encoder_.embed(texts);
  std::int64_t next = 0;
  for (Part* part : parts) {
    try {
      part->job->add_rows(rows, next, part->count);
    } catch (const std::exception&) {
      part->error = std::current_exception();
    }
    next += static_cast<std::int64_t>(part->count);
  }
}

// Its job is done, has failed, or waits for its next turn.
void EncoderLoop::settle(Part& part) {
  const bool waits = !part.error && !part.job->done();
  {
    const std::lock_guard lock(mutex_);
    queue_.finish(part.job->client);
    if (waits) {
      queue_.push(part.job->client, part.job);
    }
  }
  if (!waits) {
    done_(part.job, part.error);
  }
}

}  // namespace nibble::serve
