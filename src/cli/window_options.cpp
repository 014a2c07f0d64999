#include "cli/window_options.h"

#include "cli/option.h"
#include "cli/text_input.h"

namespace nibble::cli {

void WindowOptions::add(CLI::App& app) {
  const Option calib = add_option(app, "--calib", calib_,
                                  "Of decoders: texts to learn from (UTF-8): files, pipes, or -");
  add_option(app, "--samples", options_.samples, "Windows of text")
      ->positive()
      ->capture_default_str()
      ->needs(calib);
  add_option(app, "--seq-len", options_.seq_len, "Tokens of a window")
      ->positive()
      ->capture_default_str()
      ->needs(calib);
}

compress::CalibrationOptions WindowOptions::read() const {
  compress::CalibrationOptions options = options_;
  options.texts = read_calibration_texts(calib_);
  return options;
}

}  // namespace nibble::cli
