#include "tune/renames_for_tests.h"

#include <cerrno>

namespace nibble::tune {

std::function<int(const std::filesystem::path& target)>& before_rename() {
  static std::function<int(const std::filesystem::path&)> action;
  return action;
}

}  // namespace nibble::tune

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {

int __real_rename(const char* from, const char* to);
int __real_renameat2(int from_folder, const char* from, int to_folder, const char* to,
                     unsigned flags);

int __wrap_rename(const char* from, const char* to) {
  const auto& action = nibble::tune::before_rename();
  if (const int error = action ? action(to) : 0; error != 0) {
    errno = error;
    return -1;
  }
  return __real_rename(from, to);
}

int __wrap_renameat2(int from_folder, const char* from, int to_folder, const char* to,
                     unsigned flags) {
  const auto& action = nibble::tune::before_rename();
  if (const int error = action ? action(to) : 0; error != 0) {
    errno = error;
    return -1;
  }
  return __real_renameat2(from_folder, from, to_folder, to, flags);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
