#include "models/tile_file_mark.h"

#include <fstream>
#include <string>

namespace nibble::models {

bool is_tile_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return false;
  }
  std::string begin(kTileFileMagic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), std::ssize(begin));
  return begin == kTileFileMagic;
}

}  // namespace nibble::models
