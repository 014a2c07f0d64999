#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nibble::tune {

/// One step of training.
struct LossPoint {
  std::string stage;       // "bqpo", "e2e-oqp"
  std::int64_t block = 0;  // from 1; 0: the whole model
  std::int64_t epoch = 0;  // from 1, as steps
  std::int64_t step = 0;   // of the stage (of the block)
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
};

/// The steps that such a file holds. Throws kIo, and kInvalidModel, naming the line, where it is
/// none.
std::vector<LossPoint> read_loss_curve(const std::filesystem::path& file);

/// The steps of a run, as a CSV file: a line of names, then one for each step.
class LossCurve {
 public:
  /// Without a file it only counts.
  explicit LossCurve(std::optional<std::filesystem::path> file = std::nullopt)
      : file_(std::move(file)) {}

  /// Before the first step: writes the file, so that what cannot be written fails at once. A curve
  /// of an earlier run stays until save(). Throws kUsage for a file that holds something else.
  void start() const;

  /// Goes on with the first `steps` lines of the file that an earlier run wrote. Throws kIntegrity
  /// where it has fewer, or is no such file.
  void resume(std::int64_t steps);

  void add(const LossPoint& point);

  /// Writes the file: it holds all steps, or is as it was. Throws kIo.
  void save() const;

  std::int64_t steps() const { return steps_; }

  /// No run has more.
  static constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

 private:
  std::optional<std::filesystem::path> file_;
  std::string lines_;
  std::int64_t steps_ = 0;
};

}  // namespace nibble::tune
