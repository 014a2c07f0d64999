#include "core/progress.h"

namespace nibble::core {
namespace {

class SilentProgress final : public ProgressSink {
 public:
  void begin(std::string_view, std::int64_t) override {}
  void update(std::int64_t, std::string_view) override {}
  void end() override {}
  void message(std::string_view) override {}
};

}  // namespace

ProgressSink& silent_progress() {
  static SilentProgress sink;
  return sink;
}

}  // namespace nibble::core
