#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include <sys/socket.h>

#include "io/file_descriptor.h"
#include "ranks/rank_environment.h"

/// Sockets by which ranks meet.
namespace nibble::ranks {

using Deadline = std::chrono::steady_clock::time_point;

/// Where a socket listens: a name of this host (an abstract Unix socket), or an address and a port.
struct Address {
  sockaddr_storage value{};
  socklen_t size = 0;
  int family() const { return value.ss_family; }
};

/// Where rank 0 of a job is met. Throws kUsage for a host that has no address.
Address meeting_place(const RankPlace& place);

/// Where another rank of it listens, which reaches rank 0 by the socket `from`: a port that is free
/// of the same interface, or a name of this host.
Address place_to_listen(const RankPlace& place, const io::FileDescriptor& from);

/// A socket that listens there. Throws kFailed when somebody else does.
io::FileDescriptor listen_at(const Address& address, int most);
/// Where it listens.
Address address_of(const io::FileDescriptor& listener);

/// The next one who connects, as a socket of the same user. Nothing when nobody has by then.
io::FileDescriptor accept_one(const io::FileDescriptor& listener, Deadline until);
/// A connection to who listens there; tries again until then. Nothing when nobody does.
io::FileDescriptor connect_to(const Address& address, Deadline until);

/// False when the other end has gone, or has not sent or taken all by then.
bool send_all(const io::FileDescriptor& socket, std::span<const std::byte> bytes, Deadline until);
bool receive_all(const io::FileDescriptor& socket, std::span<std::byte> bytes, Deadline until);

}  // namespace nibble::ranks
