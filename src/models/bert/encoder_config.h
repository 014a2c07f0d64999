#pragma once

#include <string_view>

#include "models/architecture.h"
#include "models/config_reader.h"

namespace nibble::models::bert {

/// What an encoder's config.json calls its sizes.
struct SizeKeys {
  std::string_view hidden;
  std::string_view layers;
  std::string_view heads;
  std::string_view ffn;
};

/// The sizes of an encoder with learned positions. Throws kInvalidModel, as what follows.
NetworkConfig read_sizes(const ConfigReader& reader, const SizeKeys& keys);

/// An encoder with norms behind its layers, and the head that "architectures" names.
Architecture encoder(const ConfigReader& reader, NetworkConfig config);

}  // namespace nibble::models::bert
