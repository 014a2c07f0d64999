#pragma once

#include <span>
#include <string>

namespace nibble::device::cuda {

/// A library of CUDA that is opened when it is first wanted, so that programs start where only the
/// driver is installed. It stays open.
class SharedLibrary {
 public:
  /// The first of `names` that the system finds, by itself or in /usr/local/cuda/lib64. Throws
  /// kUsage, naming the library ("cuBLAS") and why it cannot be opened.
  SharedLibrary(const std::string& library, std::span<const char* const> names);

  /// A function of it; `Function` is its type. Throws kFailed when there is none.
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name) const;

  std::string library_;
  void* handle_ = nullptr;
};

}  // namespace nibble::device::cuda
