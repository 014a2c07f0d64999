#pragma once

#include <cstdint>
#include <string>

#include "capi/model_handle.h"
#include "core/progress.h"

namespace nibble::capi {

/// Tells callbacks of a long job, and ends it with Cancelled when they or `calls` say so.
class CalledProgress final : public core::ProgressSink {
 public:
  CalledProgress(nibble_progress_callback on_progress, nibble_log_callback log, void* user,
                 const Call* call = nullptr)
      : on_progress_(on_progress), log_(log), user_(user), call_(call) {}

  void begin_part(std::string_view part, std::int64_t number, std::int64_t count) override;
  void begin(std::string_view job, std::int64_t total) override;
  void skip(std::int64_t done) override { tell(done, ""); }
  void update(std::int64_t done, std::string_view note) override { tell(done, note); }
  void end() override {}
  void message(std::string_view line) override;

 private:
  void tell(std::int64_t done, std::string_view note);

  nibble_progress_callback on_progress_;
  nibble_log_callback log_;
  void* user_;
  const Call* call_;
  std::string part_;  // "nf4g64 (2 of 8): "
  std::string job_;
  std::int64_t total_ = 0;
};

}  // namespace nibble::capi
