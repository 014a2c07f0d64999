#include "cli/terminal_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace nibble::cli {

std::optional<std::size_t> terminal_columns(int descriptor) {
  if (isatty(descriptor) == 0) {
    return std::nullopt;
  }
  constexpr std::size_t kUsual = 80;
  winsize size = {};
  const bool says = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return says ? size.ws_col : kUsual;
}

}  // namespace nibble::cli
