#include "capi/model_handle.h"

#include <utility>

#include "core/error.h"
#include "device/place.h"
#include "engine/forwarding_runner.h"
#include "engine/text_batches.h"
#include "io/file_descriptor.h"

using nibble::core::ErrorKind;
namespace engine = nibble::engine;

namespace {

nibble_kind kind_of(const nibble::models::Network& network) {
  return !network.has_encoder()  ? NIBBLE_DECODER
         : network.has_decoder() ? NIBBLE_ENCODER_DECODER
                                 : NIBBLE_ENCODER;
}

}  // namespace

nibble_model::nibble_model(std::shared_ptr<nibble::models::Model> model, Settings settings)
    : device_name(to_string(settings.runner.place)),
      model_(std::move(model)),
      settings_(std::move(settings)) {
  const std::int64_t asked = settings_.engine.context;
  nibble::models::use_context(model_->network, asked);
  const std::int64_t most = model_->network.config.max_positions;
  nibble::core::require(asked >= 0 && asked <= most, ErrorKind::kUsage,
                        "a context of {} was asked for; the model was made for {} tokens", asked,
                        most);
  switch (kind()) {
    case NIBBLE_DECODER:
      runner_ = engine::make_runner(model_, settings_.runner);
      break;
    case NIBBLE_ENCODER:
      engine::complete_pooling(model_->network);
      encoder_ = engine::make_encoder(model_, settings_.runner);
      break;
    case NIBBLE_ENCODER_DECODER:
      writer_ = engine::make_text_to_text(model_, settings_.runner);
      break;
  }
}

nibble_kind nibble_model::kind() const {
  return kind_of(model_->network);
}

std::int64_t nibble_model::context() const {
  if (encoder_) {
    return engine::input_options(*model_, *encoder_).most_tokens;
  }
  const std::int64_t most = model_->network.config.max_positions;
  return engine_                        ? engine_->engine().context()
         : settings_.engine.context > 0 ? settings_.engine.context
                                        : most;
}

void nibble_model::require_kind(nibble_kind wanted, const char* what) const {
  static constexpr const char* kNames[] = {"a decoder", "an encoder", "an encoder-decoder"};
  nibble::core::require(kind() == wanted, ErrorKind::kUsage, "{} is {}; this is for {}",
                        nibble::io::shown(model_->path), kNames[kind()], what);
}

engine::Runner& nibble_model::runner() {
  require_kind(NIBBLE_DECODER, "decoders, which continue texts");
  engine_.reset();
  return *runner_;
}

nibble::capi::CalledEngine& nibble_model::engine() {
  require_kind(NIBBLE_DECODER, "decoders, which continue texts");
  if (!engine_) {
    engine_ = std::make_unique<nibble::capi::CalledEngine>(std::make_unique<engine::Engine>(
        model_, std::make_unique<engine::ForwardingRunner>(runner_), settings_.engine));
  }
  return *engine_;
}

const nibble::serve::Prompts& nibble_model::prompts() {
  if (!prompts_) {
    prompts_.emplace(model_->tokenizer, settings_.chat_template, engine().engine().context());
  }
  return *prompts_;
}

engine::Encoder& nibble_model::encoder() {
  require_kind(NIBBLE_ENCODER, "encoders, which embed or label texts");
  return *encoder_;
}

engine::TextToText& nibble_model::writer() {
  require_kind(NIBBLE_ENCODER_DECODER, "encoder-decoders");
  return *writer_;
}

namespace nibble::capi {

Call::Call(nibble_model& model) : model_(model), seen_(model.calls().cancels) {
  nibble_model::Calls& calls = model_.calls();
  core::require(calls.owner != std::this_thread::get_id(), ErrorKind::kUsage,
                "a callback must not call functions with the model that called it");
  lock_ = std::unique_lock(calls.one_at_a_time);
  check();
  calls.owner = std::this_thread::get_id();
}

Call::~Call() {
  model_.calls().owner = std::thread::id();
}

void Call::check() const {
  if (cancelled()) {
    throw Cancelled();
  }
}

void require_given(const void* argument, const char* what) {
  core::require(argument != nullptr, ErrorKind::kUsage, "the argument '{}' is NULL", what);
}

void note_error(nibble_model& model) noexcept {
  const std::lock_guard lock(model.calls().error_mutex);
  model.calls().error.set(thread_error().text());
}

}  // namespace nibble::capi
