#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "hub/http.h"

namespace nibble::hub {

/// A file on the hub.
struct RemoteFile {
  std::string name;  // "model.safetensors", for messages
  std::string url;
  std::string checksum;  // as Digest has it
  std::int64_t size = 0;
};

/// Brings a file to `target`, which appears when its bytes have the checksum. Bytes go to
/// "<target>.incomplete"; what an interrupted download left there is kept, and the server is asked
/// for the rest. Broken connections and busy servers (429, 5xx) are tried again, at most
/// kMaxTries times without a byte between. `lock` keeps others who download the same file out.
///
/// `progress` is told the bytes that are there. Throws kIo (network, disk full), kIntegrity (wrong
/// checksum; the bytes are removed).
void download(HttpClient& http, const RemoteFile& file, const std::filesystem::path& target,
              const std::filesystem::path& lock,
              const std::function<void(std::int64_t bytes)>& progress);

inline constexpr int kMaxTries = 4;

/// Waits before another try: longer each time. Whether the answer is one that may change.
bool may_try_again(const Response& response);
void wait_before_try(int tries);

/// Why a request failed, with what to do: by the hub's X-Error-Code, the status, or the network.
/// `what`: "ORG/NAME", or "model.safetensors of ORG/NAME". Throws kIo.
[[noreturn]] void refuse_response(const Response& response, const std::string& url,
                                  const std::string& what);

}  // namespace nibble::hub
