#include "capi/called_engine.h"

#include <limits>
#include <utility>

namespace nibble::capi {

CalledEngine::JobId CalledEngine::submit(serve::Job job) {
  const auto shared = std::make_shared<serve::Job>(std::move(job));
  const auto id = std::make_shared<JobId>(0);
  engine::Request& request = shared->request;
  request.on_piece = [this, shared](const engine::Piece& piece) {
    calls_.emplace_back([shared, kept = serve::TextPiece::of(piece)]() mutable {
      shared->on_piece(std::move(kept));
    });
  };
  request.on_finish = [this, shared, id](const engine::Completion& completion) {
    running_.erase(*id);
    calls_.emplace_back([shared, completion] { shared->on_finish(completion); });
  };
  try {
    *id = engine_->submit(std::move(request));
    running_.insert(*id);
  } catch (const std::exception&) {
    calls_.emplace_back(
        [shared, refused = serve::refused_completion()] { shared->on_finish(refused); });
    *id = std::numeric_limits<JobId>::max() - refused_++;
  }
  return *id;
}

void CalledEngine::deliver() {
  while (!calls_.empty()) {
    const auto call = std::move(calls_.front());
    calls_.pop_front();
    call();
  }
}

void CalledEngine::run_all(const std::function<void()>& check) {
  deliver();
  while (!running_.empty()) {
    check();
    engine_->step();
    deliver();
  }
}

void CalledEngine::drop_all() {
  const auto ids = running_;
  for (const JobId id : ids) {
    engine_->cancel(id);
  }
  running_.clear();
  calls_.clear();
}

}  // namespace nibble::capi
