#include "capi/called_progress.h"

#include <fmt/format.h>

namespace nibble::capi {

void CalledProgress::begin_part(std::string_view part, std::int64_t number, std::int64_t count) {
  part_ = fmt::format("{} ({} of {}): ", part, number, count);
}

void CalledProgress::begin(std::string_view job, std::int64_t total) {
  job_ = part_ + std::string(job);
  total_ = total;
  tell(0, "");
}

void CalledProgress::message(std::string_view line) {
  if (log_ != nullptr) {
    log_(user_, std::string(line).c_str());
  }
}

void CalledProgress::tell(std::int64_t done, std::string_view note) {
  if (call_ != nullptr) {
    call_->check();
  }
  if (on_progress_ != nullptr &&
      on_progress_(user_, job_.c_str(), done, total_, std::string(note).c_str()) != 0) {
    throw Cancelled();
  }
}

}  // namespace nibble::capi
