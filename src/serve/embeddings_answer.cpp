#include "serve/embeddings_answer.h"

#include <utility>

#include "serve/json_text.h"
#include "serve/whole_answer.h"

namespace nibble::serve {

EmbeddingsAnswer::EmbeddingsAnswer(EmbeddingsPlan plan, std::shared_ptr<HttpResponder> responder,
                                   EngineThread& engine, Explain explain, Done done)
    : plan_(std::move(plan)),
      responder_(std::move(responder)),
      engine_(engine),
      explain_(std::move(explain)),
      done_(std::move(done)),
      values_(plan_.inputs.size()),
      jobs_(plan_.inputs.size()),
      unfinished_(plan_.inputs.size()) {}

void EmbeddingsAnswer::start(std::size_t at_a_time, Admission::Place place) {
  at_a_time_ = at_a_time;
  place_ = std::move(place);
  responder_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->end();
    }
  });
  submit_more();
}

void EmbeddingsAnswer::submit_more() {
  while (!ended_ && in_engine_ < at_a_time_ && submitted_ < plan_.inputs.size()) {
    const std::size_t at = submitted_++;
    EmbeddingJob job;
    job.tokens = std::move(plan_.inputs[at]);
    job.on_finish = [self = shared_from_this(), at](std::vector<float> values,
                                                    const std::exception_ptr& error) {
      self->finish(at, std::move(values), error);
    };
    ++in_engine_;
    jobs_[at] = engine_.submit(std::move(job));
  }
}

void EmbeddingsAnswer::finish(std::size_t at, std::vector<float> values,
                              const std::exception_ptr& error) {
  jobs_[at] = 0;
  --in_engine_;
  if (ended_) {
    return;
  }
  if (error) {
    fail(explain_(error));
    return;
  }
  values_[at] = std::move(values);
  if (--unfinished_ > 0) {
    submit_more();
    return;
  }
  responder_->respond(
      json_response(embeddings_body(plan_.model, std::move(values_), plan_.base64, plan_.tokens)));
  end();
}

void EmbeddingsAnswer::fail(const ApiError& error) {
  if (!ended_) {
    responder_->respond(error.response());
    end();
  }
}

void EmbeddingsAnswer::end() {
  ended_ = true;
  place_ = {};
  for (const EngineThread::JobId job : jobs_) {
    if (job != 0) {
      engine_.cancel(job);
    }
  }
  if (const auto done = std::exchange(done_, nullptr)) {
    done(*this);
  }
}

}  // namespace nibble::serve
