#include "serve/listener.h"

#include <utility>  // Boost 1.74 uses it and does not include it

#include <boost/asio.hpp>
#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"

namespace nibble::serve {

using tcp = boost::asio::ip::tcp;

Listener::Listener(const std::string& host, std::uint16_t port) {
  try {
    boost::asio::io_context io;
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(host, std::to_string(port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    tcp::acceptor acceptor(io, endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
    port_ = acceptor.local_endpoint().port();
    v6_ = endpoint.protocol() == tcp::v6();
    descriptor_ = acceptor.release();
  } catch (const boost::system::system_error& error) {
    if (error.code() == boost::asio::error::address_in_use) {
      core::fail(core::ErrorKind::kFailed,
                 "cannot listen on {} port {}: the address is in use; choose another --port", host,
                 port);
    }
    core::fail(core::ErrorKind::kUsage, "cannot listen on {} port {}: {}", core::printable(host),
               port, error.code().message());
  }
}

Listener::Listener(Listener&& other) noexcept
    : descriptor_(other.release()), port_(other.port_), v6_(other.v6_) {}

Listener::~Listener() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

Listener Listener::twin() const {
  const int copy = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  core::require(copy >= 0, core::ErrorKind::kFailed, "out of file descriptors");
  return {copy, port_, v6_};
}

int Listener::release() {
  return std::exchange(descriptor_, -1);
}

}  // namespace nibble::serve
