#include "jinja/runtime.h"

#include <algorithm>

#include "jinja/limits.h"

namespace nibble::jinja {
namespace {

// Inputs beyond this earn no further budget, which keeps every text below 2 GiB.
constexpr std::int64_t kMaxCountedInput = std::int64_t{16} << 20;

}  // namespace

DepthGuard::DepthGuard(int& depth, int most, Position at, std::string_view what) : depth_(depth) {
  if (depth_ >= most) {
    fail_at(at, "{} deeper than {} levels", what, most);
  }
  ++depth_;
}

Runtime::Runtime(std::int64_t input_bytes, std::int64_t now_unix_seconds)
    : now_unix_seconds_(now_unix_seconds) {
  const std::int64_t counted = std::clamp<std::int64_t>(input_bytes, 0, kMaxCountedInput);
  steps_left_ = kBaseSteps + kStepsPerInputByte * counted;
  bytes_left_ = kBaseBytes + kBytesPerInputByte * counted;
}

void Runtime::step(std::int64_t count) {
  require(count <= steps_left_, "the template takes too many steps; it may loop without end");
  steps_left_ -= count;
}

void Runtime::grow(std::size_t bytes) {
  require(bytes <= static_cast<std::uint64_t>(bytes_left_),
          "the template makes too much text; its output or a value in it grows without end");
  bytes_left_ -= static_cast<std::int64_t>(bytes);
}

}  // namespace nibble::jinja
