#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nibble::device::cuda {

/// A library of CUDA that is opened when it is first wanted, so that programs start where only the
/// driver is installed. It stays open.
class SharedLibrary {
 public:
  /// The first of `names` that the system finds, by itself or in /usr/local/cuda/lib64. Throws
  /// kUsage, naming the library ("cuBLAS"), why it cannot be opened, and what to do.
  SharedLibrary(const std::string& library, std::span<const char* const> names,
                std::string_view advice = kFromToolkit);

  static constexpr std::string_view kFromToolkit =
      "install it from the CUDA toolkit, set LD_LIBRARY_PATH to its folder, or use --device cpu";

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
