#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "io/file_descriptor.h"
#include "ranks/communicator.h"

namespace nibble::ranks {

/// Ranks that are connected each with each by sockets. What is sent has a head of 16 bytes that
/// says what it is and how long: a rank that goes, or does something else than the others, is
/// noticed at once. Whoever waits sleeps, but for the first microseconds.
///
/// Every rank sends what it gives to each other one: the bytes that pass its socket are those of
/// the best algorithms, the messages size - 1.
class SocketCommunicator final : public Communicator {
 public:
  /// peers[r]: the socket to rank r, which does not block; that of `rank` itself is not open.
  SocketCommunicator(int rank, std::vector<io::FileDescriptor> peers);
  ~SocketCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void all_gather(Given mine, std::span<const Taken> all) override;
  void gather(Given mine, std::span<const Taken> all) override;
  void broadcast(std::vector<std::byte>& message) override;
  void leave(core::ErrorKind kind, std::string_view why) noexcept override;
  std::optional<int> lost() const override;
  bool has_ended(int rank) const override;

 private:
  struct Head {
    std::uint32_t kind = 0;
    std::uint32_t error = 0;  // of kLeaving: its core::ErrorKind
    std::uint64_t bytes = 0;  // that follow
  };
  // What passes between this rank and another in one call.
  struct Transfer {
    int peer = 0;
    bool sends = false;
    bool receives = false;
    bool any_length = false;  // a broadcast, whose head says how long it is
    Head head_out;
    Given out;
    Head head_in;
    Taken in;
    std::size_t sent = 0;  // bytes of head and content
    std::size_t received = 0;
    bool sent_all() const { return !sends || sent == sizeof(Head) + out.size(); }
    bool received_all() const { return !receives || received == sizeof(Head) + in.size(); }
    bool done() const { return sent_all() && received_all(); }
  };

  int fd(int peer) const { return peers_[static_cast<std::size_t>(peer)].get(); }
  Transfer sending(int peer, std::uint32_t kind, Given out) const;
  void exchange(std::vector<Transfer>& transfers);
  void complete(std::vector<Transfer>& transfers);
  void hear_why(std::vector<Transfer>& transfers, int ended);
  bool send_some(Transfer& transfer);
  bool receive_some(Transfer& transfer);
  void check_head(const Transfer& transfer);
  void wait(const std::vector<Transfer>& transfers) const;
  [[noreturn]] void fail_by(int peer);
  [[noreturn]] void fail_as_told(int peer, const Head& head);

  int rank_;
  std::vector<io::FileDescriptor> peers_;
  std::vector<bool> mid_message_;  // the peer has a part of a message: nothing else may follow
  bool left_ = false;
};

}  // namespace nibble::ranks
