#pragma once

#include <string>
#include <string_view>

namespace nibble::device {

enum class Kind { kCpu, kCuda };

/// Where work is done: on the host's processors, or on one of its NVIDIA GPUs.
struct Place {
  Kind kind = Kind::kCpu;
  int index = 0;  // of the GPU, as the driver counts them

  bool on_gpu() const { return kind == Kind::kCuda; }
  friend bool operator==(const Place&, const Place&) = default;
};

/// "cpu", "cuda" (the first GPU) or "cuda:1"; throws kUsage for anything else.
Place parse_place(std::string_view text);

/// As parse_place() reads it; the first GPU is "cuda".
std::string to_string(const Place& place);

}  // namespace nibble::device
