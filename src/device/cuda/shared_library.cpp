#include "device/cuda/shared_library.h"

#include <dlfcn.h>

#include "core/error.h"

namespace nibble::device::cuda {

SharedLibrary::SharedLibrary(const std::string& library, std::span<const char* const> names,
                             std::string_view advice)
    : library_(library) {
  std::string reason;
  for (const std::string folder : {"", "/usr/local/cuda/lib64/"}) {
    for (const char* name : names) {
      handle_ = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        return;
      }
      if (reason.empty()) {
        const char* error = dlerror();
        reason = error != nullptr ? error : "no reason given";
      }
    }
  }
  core::fail(core::ErrorKind::kUsage, "{} cannot be opened ({}); {}", library_,
             core::printable(reason), advice);
}

void* SharedLibrary::address(const char* name) const {
  void* const found = dlsym(handle_, name);
  core::require(found != nullptr, core::ErrorKind::kFailed, "{} has no function {}", library_,
                name);
  return found;
}

}  // namespace nibble::device::cuda
