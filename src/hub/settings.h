#pragma once

#include <filesystem>
#include <string>

namespace nibble::hub {

/// Where the hub is, where its cache is, and who asks: the variables that huggingface_hub reads.
struct Settings {
  std::string endpoint;         // HF_ENDPOINT, or https://huggingface.co; without a '/' at its end
  std::filesystem::path cache;  // HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub
  std::string token;            // HF_TOKEN, or the file of `hf auth login`; empty: none
  bool offline = false;         // HF_HUB_OFFLINE
};

/// Throws kUsage for an endpoint that is no http(s) address or a token of several lines, kIo where
/// there is no place for a cache or the file of the token cannot be read.
Settings settings_from_environment();

}  // namespace nibble::hub
