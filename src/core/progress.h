#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nibble::core {

/// Where long jobs report how far they are. The library never prints: programs pass a sink of their
/// own (cli/terminal_progress.h), everyone else gets the silent one.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;

  /// The jobs from here on are those of part `number` (1 ... count) of the work, and the parts take
  /// about as long as one another: a recipe, of several that are compared ("nf4g64", 2, 8).
  virtual void begin_part(std::string_view, std::int64_t /*number*/, std::int64_t /*count*/) {}
  /// A job of `total` steps begins ("quantize", 6).
  virtual void begin(std::string_view job, std::int64_t total) = 0;
  /// So many steps were done by an earlier run: they tell nothing of how long the others take.
  virtual void skip(std::int64_t /*done*/) {}
  /// `done` steps are finished; `note` says what was just done ("block 3: down_proj error 0.012").
  virtual void update(std::int64_t done, std::string_view note) = 0;
  /// The job is over.
  virtual void end() = 0;
  /// One line that stays on the screen: a warning or a result by layer.
  virtual void message(std::string_view line) = 0;
};

/// A sink that shows nothing.
ProgressSink& silent_progress();

}  // namespace nibble::core
