#include "tune/loss_curve.h"

#include <fstream>
#include <string_view>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/text_file.h"

namespace nibble::tune {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 30;  // bytes of a file
constexpr std::string_view kNames = "stage,block,epoch,step,loss,learning_rate,gradient_norm\n";

}  // namespace

void LossCurve::start() const {
  std::error_code error;
  if (!file_ || !std::filesystem::is_regular_file(*file_, error) ||
      std::filesystem::file_size(*file_, error) == 0) {
    save();
    return;
  }
  std::string begin(kNames.size(), '\0');
  std::ifstream(*file_, std::ios::binary).read(begin.data(), std::ssize(begin));
  core::require(begin == kNames, core::ErrorKind::kUsage,
                "{} is there and is no loss curve; choose another name with --csv",
                io::shown(*file_));
}

void LossCurve::add(const LossPoint& point) {
  if (file_) {
    lines_ +=
        fmt::format("{},{},{},{},{:.9g},{:.9g},{:.9g}\n", point.stage, point.block, point.epoch,
                    point.step, point.loss, point.learning_rate, point.gradient_norm);
  }
  ++steps_;
}

void LossCurve::resume(std::int64_t steps) {
  steps_ = steps;
  lines_.clear();
  if (!file_ || steps == 0) {
    return;
  }
  const std::string text = io::read_text_file(*file_, kLongest);
  std::size_t end = text.starts_with(kNames) ? kNames.size() : std::string::npos;
  for (std::int64_t i = 0; i < steps && end != std::string::npos; ++i) {
    const std::size_t line = text.find('\n', end);
    end = line == std::string::npos ? line : line + 1;
  }
  core::require(end != std::string::npos, core::ErrorKind::kIntegrity,
                "{} does not hold the {} steps that were done; go on without --csv",
                io::shown(*file_), steps);
  lines_ = text.substr(kNames.size(), end - kNames.size());
}

void LossCurve::save() const {
  if (file_) {
    io::write_file_atomically(*file_, std::string(kNames) + lines_);
  }
}

}  // namespace nibble::tune
