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
  std::size_t inputs_left() const { return inputs.size() - rows.size(); }

  /// How many of the next inputs have no more than so many tokens; with `least_one` one even if it
  /// has more. And the tokens of the next `count` inputs.
  std::size_t inputs_in(std::int64_t tokens, bool least_one) const;
  std::int64_t tokens_of_next(std::size_t count) const;
  /// The next `count` inputs as the encoder reads them.
  void append_texts(std::size_t count, std::vector<engine::EncoderText>& texts) const;
  /// Rows [first, first + count) are those of the next inputs. Throws kFailed for NaN and infinity.
  void add_rows(const engine::EncoderRows& computed, std::int64_t first, std::size_t count);

  Rows rows;  // of the first inputs
};

}  // namespace nibble::serve
