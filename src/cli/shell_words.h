#pragma once

#include <span>
#include <string>

namespace nibble::cli {

/// Words as a shell reads them: "nibble run 'my model'".
std::string shell_command(std::span<const std::string> words);

}  // namespace nibble::cli
