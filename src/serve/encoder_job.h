#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/encoder.h"
#include "serve/admission.h"
#include "serve/http_server.h"
#include "text/model_input.h"

namespace nibble::serve {

/// Inputs of a request that an encoder computes, and what is made of the rows that come out.
struct EncoderJob {
  using Rows = std::vector<std::vector<float>>;
  enum class Output { kEmbeddings, kLogits };

  Output output = Output::kEmbeddings;
  bool token_types = true;  // the model has them
  std::vector<text::ModelInput> inputs;
  std::function<HttpResponse(Rows rows)> answer;  // one row for each input

  std::shared_ptr<HttpResponder> responder;
  std::string request;  // its id
  std::string client;   // among whom the encoder is shared
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  Admission::Place place;
  std::atomic<bool> ended{false};  // answered, also by an error

  std::int64_t tokens() const;
  bool done() const { return rows.size() == inputs.size(); }

  /// Computes the next inputs, of `most_tokens` together if one has no more. Throws as the encoder;
  /// kFailed for NaN and infinity.
  void advance(engine::Encoder& encoder, std::int64_t most_tokens);

  Rows rows;  // of the first inputs
};

}  // namespace nibble::serve
