#pragma once

#include <cstdint>
#include <string>

namespace nibble::serve {

/// An open port. Connections wait in it until a server takes them.
class Listener {
 public:
  /// `host`: an address, or a name that is looked up; `port` 0: any that is free. Throws kFailed
  /// when the port is in use, kUsage for a host that is none.
  Listener(const std::string& host, std::uint16_t port);
  Listener(Listener&& other) noexcept;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  /// The same port once more: it is closed when both are.
  Listener twin() const;

  std::uint16_t port() const { return port_; }
  bool v6() const { return v6_; }
  /// The socket, which is then the caller's.
  int release();

 private:
  Listener(int descriptor, std::uint16_t port, bool v6)
      : descriptor_(descriptor), port_(port), v6_(v6) {}

  int descriptor_ = -1;
  std::uint16_t port_ = 0;
  bool v6_ = false;
};

}  // namespace nibble::serve
