#include "tune/loss_curve.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/text_file.h"

namespace nibble::tune {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 30;  // bytes of a file
constexpr std::string_view kNames = "stage,block,epoch,step,loss,learning_rate,gradient_norm\n";

template <typename Number>
Number number_of(std::string_view text, const std::string& where) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  core::require(error == std::errc() && end == text.data() + text.size(),
                core::ErrorKind::kInvalidModel, "{}: '{}' is no number", where,
                core::printable(text));
  return number;
}

LossPoint point_of(std::string_view line, const std::string& where) {
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  core::require(fields.size() == 7, core::ErrorKind::kInvalidModel, "{}: {} fields, not 7", where,
                fields.size());
  return {std::string(fields[0]),
          number_of<std::int64_t>(fields[1], where),
          number_of<std::int64_t>(fields[2], where),
          number_of<std::int64_t>(fields[3], where),
          number_of<double>(fields[4], where),
          number_of<double>(fields[5], where),
          number_of<double>(fields[6], where)};
}

}  // namespace

std::vector<LossPoint> read_loss_curve(const std::filesystem::path& file) {
  const std::string text = io::read_text_file(file, kLongest);
  core::require(text.starts_with(kNames), core::ErrorKind::kInvalidModel, "{} is no loss curve",
                io::shown(file));
  std::vector<LossPoint> points;
  for (std::size_t at = kNames.size(); at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    points.push_back(point_of(std::string_view(text).substr(at, end - at),
                              fmt::format("{}, line {}", io::shown(file), points.size() + 2)));
    at = end + 1;
  }
  return points;
}

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
