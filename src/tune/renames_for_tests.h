#pragma once

#include <filesystem>
#include <functional>

namespace nibble::tune {

/// What this program calls before each file or folder gets its name by rename(), which is how all
/// that must survive a kill is written (io/atomic_file.h). The result is an errno, with which
/// rename() fails, or 0. Empty: nothing is called. The linker wraps rename() and renameat2() for
/// it.
std::function<int(const std::filesystem::path& target)>& before_rename();

}  // namespace nibble::tune
