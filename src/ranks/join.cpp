#include "ranks/join.h"

#include <array>
#include <cstring>

#include "ranks/rank_socket.h"
#include "ranks/socket_communicator.h"

namespace nibble::ranks {
namespace {

using core::ErrorKind;
using io::FileDescriptor;

constexpr auto kPatience = std::chrono::seconds(60);  // for a rank that has yet to be started
constexpr auto kGreeting = std::chrono::seconds(5);   // for the first words of one who is there
constexpr std::array<char, 8> kMagic = {'N', 'I', 'B', 'R', 'A', 'N', 'K', '1'};

// The first words of a rank to another one.
struct Hello {
  std::array<char, 8> magic = kMagic;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  Address listens;  // where ranks behind it reach it
};
static_assert(std::is_trivially_copyable_v<Hello>);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

class Meeting {
 public:
  explicit Meeting(const RankPlace& place)
      : place_(place),
        until_(std::chrono::steady_clock::now() + kPatience),
        peers_(static_cast<std::size_t>(place.size)),
        where_(peers_.size()) {}

  std::vector<FileDescriptor> meet() && {
    place_.rank == 0 ? meet_all() : meet_by_first();
    return std::move(peers_);
  }

 private:
  FileDescriptor& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Address& where(int rank) { return where_[static_cast<std::size_t>(rank)]; }

  // Rank 0 waits for all, and tells them where each listens.
  void meet_all() {
    const FileDescriptor listener = listen_at(meeting_place(place_), place_.size);
    await(listener, 1);
    for (int rank = 1; rank < place_.size; ++rank) {
      core::require(send_all(peer(rank), std::as_bytes(std::span(where_)), until_),
                    ErrorKind::kFailed, "rank {} has ended before all ranks had come", rank);
    }
  }

  // The others connect to those before them, and wait for those behind.
  void meet_by_first() {
    peer(0) = connect_to(meeting_place(place_), until_);
    core::require(peer(0).is_open(), ErrorKind::kFailed,
                  "rank 0 of {} cannot be reached; were all ranks started?", place_.size);
    const FileDescriptor listener = listen_at(place_to_listen(place_, peer(0)), place_.size);
    const Hello hello = greeting(address_of(listener));
    core::require(send_all(peer(0), bytes_of(hello), until_) &&
                      receive_all(peer(0), std::as_writable_bytes(std::span(where_)), until_),
                  ErrorKind::kFailed, "rank 0 has ended before all ranks had come");
    for (int rank = 1; rank < place_.rank; ++rank) {
      peer(rank) = connect_to(where(rank), until_);
      core::require(peer(rank).is_open() && send_all(peer(rank), bytes_of(hello), until_),
                    ErrorKind::kFailed, "rank {} cannot be reached", rank);
    }
    await(listener, place_.rank + 1);
  }

  Hello greeting(const Address& listens) const {
    Hello hello;
    hello.rank = place_.rank;
    hello.size = place_.size;
    hello.listens = listens;
    return hello;
  }

  // Takes ranks from `first` on, in the order in which they come. Who is none is not answered.
  void await(const FileDescriptor& listener, int first) {
    for (int missing = place_.size - first; missing > 0;) {
      FileDescriptor socket = accept_one(listener, until_);
      core::require(socket.is_open(), ErrorKind::kFailed,
                    "{} of {} ranks have not come within {} seconds; were all started?", missing,
                    place_.size, kPatience.count());
      Hello hello;
      const bool greeted = receive_all(socket, std::as_writable_bytes(std::span(&hello, 1)),
                                       std::chrono::steady_clock::now() + kGreeting) &&
                           hello.magic == kMagic;
      if (!greeted) {
        continue;
      }
      core::require(hello.size == place_.size && hello.rank >= first && hello.rank < place_.size &&
                        !peer(hello.rank).is_open(),
                    ErrorKind::kFailed,
                    "rank {} of {} has come, which this job of {} ranks does not await", hello.rank,
                    hello.size, place_.size);
      where(hello.rank) = hello.listens;
      peer(hello.rank) = std::move(socket);
      --missing;
    }
  }

  const RankPlace& place_;
  Deadline until_;
  std::vector<FileDescriptor> peers_;
  std::vector<Address> where_;
};

}  // namespace

std::unique_ptr<Communicator> join(const RankPlace& place) {
  return std::make_unique<SocketCommunicator>(place.rank, Meeting(place).meet());
}

}  // namespace nibble::ranks
