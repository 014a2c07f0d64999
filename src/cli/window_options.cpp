#include "cli/window_options.h"

#include <CLI/CLI.hpp>

#include "cli/text_input.h"

namespace nibble::cli {

void WindowOptions::add(CLI::App& app) {
  auto* const calib = app.add_option(
      "--calib", calib_, "Of decoders: texts to learn from (UTF-8): files, pipes, or -");
  app.add_option("--samples", options_.samples, "Windows of text")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->needs(calib);
  app.add_option("--seq-len", options_.seq_len, "Tokens of a window")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->needs(calib);
}

compress::CalibrationOptions WindowOptions::read() const {
  compress::CalibrationOptions options = options_;
  options.texts = read_calibration_texts(calib_);
  return options;
}

}  // namespace nibble::cli
