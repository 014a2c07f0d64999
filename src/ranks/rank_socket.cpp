#include "ranks/rank_socket.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/error.h"

namespace nibble::ranks {
namespace {

using core::ErrorKind;
using io::FileDescriptor;

constexpr auto kBetweenTries = std::chrono::milliseconds(20);
constexpr int kBufferBytes = 1 << 20;  // that the system may hold of what was sent

Address local_address(const RankPlace& place, int rank) {
  const std::string name = fmt::format("nibble-{}-{}-{}", geteuid(), place.job, rank);
  Address address;
  auto& local = reinterpret_cast<sockaddr_un&>(address.value);
  core::require(name.size() < sizeof(local.sun_path), ErrorKind::kUsage,
                "the name of the job, '{}', is too long", core::printable(place.job));
  local.sun_family = AF_UNIX;
  std::memcpy(local.sun_path + 1, name.data(), name.size());  // a first 0: a name, not a file
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

void set_port(Address& address, std::uint16_t port) {
  if (address.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address.value).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address.value).sin_port = htons(port);
  }
}

template <typename T>
void set_option(const FileDescriptor& socket, int level, int name, T value) {
  setsockopt(socket.get(), level, name, &value, sizeof(value));
}

// Small messages go at once, and a host that is gone is noticed within ten seconds.
void prepare(const FileDescriptor& socket, int family) {
  set_option(socket, SOL_SOCKET, SO_SNDBUF, kBufferBytes);
  set_option(socket, SOL_SOCKET, SO_RCVBUF, kBufferBytes);
  if (family != AF_UNIX) {
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 2);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 8000);
  }
}

FileDescriptor make_socket(int family) {
  FileDescriptor made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  core::require(made.is_open(), ErrorKind::kFailed, "cannot make a socket: {}",
                std::strerror(errno));
  prepare(made, family);
  return made;
}

// False when nothing has happened by then.
bool wait_for(const FileDescriptor& socket, short events, Deadline until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return false;
    }
    pollfd waited{socket.get(), events, 0};
    const int ready = poll(&waited, 1, static_cast<int>(left.count()));
    if (ready > 0) {
      return true;
    }
    if (ready < 0 && errno != EINTR) {
      return false;
    }
  }
}

bool of_this_user(const FileDescriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return false;
  }
  if (address.ss_family != AF_UNIX) {
    return true;
  }
  ucred user{};
  size = sizeof(user);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &user, &size) == 0 &&
         user.uid == geteuid();
}

}  // namespace

Address meeting_place(const RankPlace& place) {
  if (place.address.empty()) {
    return local_address(place, 0);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(place.address.c_str(), nullptr, &hints, &found);
  core::require(error == 0, ErrorKind::kUsage, "MASTER_ADDR '{}' has no address: {}",
                core::printable(place.address), gai_strerror(error));
  Address address;
  std::memcpy(&address.value, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  set_port(address, place.port);
  return address;
}

Address place_to_listen(const RankPlace& place, const FileDescriptor& from) {
  if (place.address.empty()) {
    return local_address(place, place.rank);
  }
  Address address = address_of(from);
  set_port(address, 0);
  return address;
}

FileDescriptor listen_at(const Address& address, int most) {
  FileDescriptor listener = make_socket(address.family());
  if (address.family() != AF_UNIX) {
    set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  }
  const auto* where = reinterpret_cast<const sockaddr*>(&address.value);
  core::require(bind(listener.get(), where, address.size) == 0 && listen(listener.get(), most) == 0,
                ErrorKind::kFailed, "cannot listen for other ranks{}: {}",
                address.family() == AF_UNIX ? "" : " at MASTER_ADDR and MASTER_PORT",
                std::strerror(errno));
  return listener;
}

Address address_of(const FileDescriptor& listener) {
  Address address;
  address.size = sizeof(address.value);
  core::require(
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address.value), &address.size) == 0,
      ErrorKind::kFailed, "a socket has no address: {}", std::strerror(errno));
  return address;
}

FileDescriptor accept_one(const FileDescriptor& listener, Deadline until) {
  while (wait_for(listener, POLLIN, until)) {
    FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open() && of_this_user(socket)) {
      prepare(socket, address_of(socket).family());
      return socket;
    }
  }
  return FileDescriptor();
}

FileDescriptor connect_to(const Address& address, Deadline until) {
  const auto* where = reinterpret_cast<const sockaddr*>(&address.value);
  while (std::chrono::steady_clock::now() < until) {
    FileDescriptor socket = make_socket(address.family());
    int error = connect(socket.get(), where, address.size) == 0 ? 0 : errno;
    if (error == EINPROGRESS && wait_for(socket, POLLOUT, until)) {
      socklen_t size = sizeof(error);
      getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) {
      core::require(of_this_user(socket), ErrorKind::kFailed,
                    "another user listens where rank 0 of this job is to be met");
      return socket;
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  return FileDescriptor();
}

bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes, Deadline until) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLOUT, until)) {
        return false;
      }
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool receive_all(const FileDescriptor& socket, std::span<std::byte> bytes, Deadline until) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      if (!wait_for(socket, POLLIN, until)) {
        return false;
      }
    } else if (got == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace nibble::ranks
