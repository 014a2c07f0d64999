#pragma once

#include <string>
#include <vector>

#include "compress/calibration/calibration.h"
#include "tune/tuning_options.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}  // namespace CLI

namespace nibble::cli {

/// --calib, --samples and --seq-len: the windows of text that a decoder is trained with.
class WindowOptions {
 public:
  void add(CLI::App& app);

  bool any() const { return !calib_.empty(); }
  /// With the texts. Throws as read_calibration_texts().
  compress::CalibrationOptions read() const;

 private:
  compress::CalibrationOptions options_ = tune::TuningOptions().calibration;
  std::vector<std::string> calib_;
};

}  // namespace nibble::cli
