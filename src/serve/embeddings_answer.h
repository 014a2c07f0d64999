#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/admission.h"
#include "serve/engine_thread.h"
#include "serve/http_server.h"
#include "serve/pending_answer.h"

namespace nibble::serve {

/// What an answer of embeddings consists of.
struct EmbeddingsPlan {
  std::string model;
  std::vector<std::vector<std::int32_t>> inputs;  // tokens
  std::int64_t tokens = 0;                        // of all inputs
  bool base64 = false;
};

/// Gathers the embeddings of a request. On the I/O thread.
class EmbeddingsAnswer final : public PendingAnswer,
                               public std::enable_shared_from_this<EmbeddingsAnswer> {
 public:
  /// `engine` must outlive it.
  EmbeddingsAnswer(EmbeddingsPlan plan, std::shared_ptr<HttpResponder> responder,
                   EngineThread& engine, Explain explain, Done done);

  /// At most `at_a_time` inputs are in the engine, so that others are served between. `place` is
  /// held until the end.
  void start(std::size_t at_a_time, Admission::Place place);

  void fail(const ApiError& error) override;
  std::size_t waiting() const override { return ended_ ? 0 : jobs_.size() - submitted_; }

 private:
  void submit_more();
  void finish(std::size_t at, std::vector<float> values, const std::exception_ptr& error);
  void end();

  EmbeddingsPlan plan_;
  std::shared_ptr<HttpResponder> responder_;
  EngineThread& engine_;
  Explain explain_;
  Done done_;
  std::vector<std::vector<float>> values_;  // by input
  std::vector<EngineThread::JobId> jobs_;   // by input; 0: not in the engine
  std::size_t at_a_time_ = 1;
  std::size_t submitted_ = 0;
  std::size_t in_engine_ = 0;
  std::size_t unfinished_ = 0;
  Admission::Place place_;
  bool ended_ = false;
};

}  // namespace nibble::serve
