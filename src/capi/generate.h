#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "capi/model_handle.h"
#include "capi/texts.h"
#include "engine/request.h"

namespace nibble::capi {

/// A text that a decoder is to write, and who takes its pieces: false ends the call.
struct TextOrder {
  engine::Request request;
  std::function<bool(const std::string& text)> on_piece;
};

/// Writes texts together. Throws Cancelled, and what made one fail; then none is written further.
std::vector<engine::Completion> write_all(nibble_model& model, const Call& call,
                                          const std::vector<TextOrder>& orders);

/// Lets the engine work until the jobs that `submit` gives it have ended; none is left where it
/// throws. Throws as CalledEngine::run_all().
void run_jobs(nibble_model& model, const Call& call,
              const std::function<void(CalledEngine&)>& submit);

/// What an encoder-decoder writes when it has read texts.
std::vector<nibble_texts::Text> rewrite_texts(nibble_model& model, const Call& call,
                                              std::span<const nibble_input> sources,
                                              const nibble_generate_options& options);

}  // namespace nibble::capi
