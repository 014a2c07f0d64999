#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "capi/called_engine.h"
#include "capi/status.h"
#include "engine/encoder.h"
#include "engine/engine.h"
#include "engine/runner.h"
#include "engine/text_to_text.h"
#include "models/model.h"
#include "serve/prompts.h"

/// A model that is ready on one device, and who calls it.
struct nibble_model {
 public:
  struct Settings {
    std::filesystem::path path;
    nibble::engine::RunnerOptions runner;
    nibble::engine::EngineOptions engine;
    std::string chat_template;
  };

  /// Throws as engine::make_runner(), make_encoder() and make_text_to_text(); kUsage for a context
  /// that the model was not made for.
  nibble_model(std::shared_ptr<nibble::models::Model> model, Settings settings);

  nibble::models::Model& model() { return *model_; }
  const nibble::models::Model& model() const { return *model_; }
  const std::shared_ptr<nibble::models::Model>& shared_model() const { return model_; }
  const Settings& settings() const { return settings_; }
  nibble_kind kind() const;
  /// Tokens of prompt and text; of an encoder, of a text.
  std::int64_t context() const;

  /// Of a decoder, for work beside the engine, which is given up: both use the KV cache. These
  /// throw kUsage for models of another kind.
  nibble::engine::Runner& runner();
  /// Of a decoder; made for the first text.
  nibble::capi::CalledEngine& engine();
  /// After the engine has failed for good.
  void drop_engine() { engine_.reset(); }
  const nibble::serve::Prompts& prompts();
  nibble::engine::Encoder& encoder();
  nibble::engine::TextToText& writer();

  /// What calls share.
  struct Calls {
    std::mutex one_at_a_time;
    std::atomic<std::thread::id> owner{};  // of the lock
    std::atomic<std::uint64_t> cancels{0};
    mutable std::mutex error_mutex;
    nibble::capi::ErrorText error;
  };
  Calls& calls() { return calls_; }
  const Calls& calls() const { return calls_; }

  const std::string device_name;

 private:
  void require_kind(nibble_kind kind, const char* what) const;

  std::shared_ptr<nibble::models::Model> model_;
  Settings settings_;
  std::shared_ptr<nibble::engine::Runner> runner_;
  std::unique_ptr<nibble::engine::Encoder> encoder_;
  std::unique_ptr<nibble::engine::TextToText> writer_;
  std::unique_ptr<nibble::capi::CalledEngine> engine_;
  std::optional<nibble::serve::Prompts> prompts_;
  Calls calls_;
};

namespace nibble::capi {

/// One call with a model, which waits for those before it.
class Call {
 public:
  /// Throws kUsage within a callback of the same model, Cancelled when it was cancelled meanwhile.
  explicit Call(nibble_model& model);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool cancelled() const { return model_.calls().cancels != seen_; }
  /// Throws Cancelled.
  void check() const;

 private:
  nibble_model& model_;
  std::uint64_t seen_;
  std::unique_lock<std::mutex> lock_;
};

/// Throws kUsage for null: `what` names the argument.
void require_given(const void* argument, const char* what);

/// As many threads as were asked for. Throws kUsage for a number out of range.
int checked_threads(std::int32_t threads);

/// Keeps the text of this thread for nibble_model_error() too.
void note_error(nibble_model& model) noexcept;

/// Runs work(call) while no other call with the model runs.
template <typename Work>
nibble_status with_model(nibble_model* model, Work work) noexcept {
  const nibble_status status = guarded([&] {
    require_given(model, "model");
    const Call call(*model);
    work(call);
  });
  if (status != NIBBLE_OK && model != nullptr) {
    note_error(*model);
  }
  return status;
}

}  // namespace nibble::capi
