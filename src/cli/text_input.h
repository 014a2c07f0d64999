#pragma once

#include <cstdint>
#include <string>

#include "compress/calibration/calibration.h"

namespace nibble::cli {

/// Reads a text that the call names: a file, a pipe (a shell's <(...) too), or "-", which is
/// standard input. Throws kIo when it cannot be read, kInvalidModel naming the byte when it is not
/// UTF-8, kUsage when it is empty, as a pipe is that was read before.
std::string read_text(const std::string& name);

/// The same for a prompt, which may be empty. A line break at its end is left out: editors and echo
/// put it there.
std::string read_prompt(const std::string& name);

/// Throws kUsage naming the byte when `text`, which stands in the call itself, is not UTF-8.
void require_utf8_words(const std::string& text, const char* option);

/// Help of --calib, and its texts.
inline constexpr const char* kCalibrationHelp =
    "Calibration texts (UTF-8): files, pipes, or - for standard input; without any the model "
    "writes its own. A model with an encoder needs some: each line a text (of a file of GLUE its "
    "sentences), or for an encoder-decoder what it reads, a tab, and what it should write";
std::vector<compress::CalibrationText> read_calibration_texts(
    const std::vector<std::string>& names);

}  // namespace nibble::cli
