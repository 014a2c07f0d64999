#pragma once

namespace nibble::formats {

/// What rounded activations become.
enum class ActivationType { kInteger, kE4m3 };

}  // namespace nibble::formats
