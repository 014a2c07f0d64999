#include "ranks/socket_communicator.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <poll.h>
#include <sys/uio.h>

#include "ranks/rank_socket.h"

namespace nibble::ranks {
namespace {

using core::ErrorKind;

enum Kind : std::uint32_t { kGather = 0x4e520001, kBroadcast, kLeaving };

constexpr std::uint64_t kMostText = 4096;  // of a rank that says why it ends
constexpr std::uint64_t kMostMessage = std::uint64_t{1} << 32;
constexpr int kLooks = 100;  // some 50 microseconds, before a rank that waits goes to sleep
constexpr auto kLastWords = std::chrono::seconds(2);  // for what a rank says when it ends

Deadline soon() {
  return std::chrono::steady_clock::now() + kLastWords;
}

}  // namespace

SocketCommunicator::SocketCommunicator(int rank, std::vector<io::FileDescriptor> peers)
    : rank_(rank), peers_(std::move(peers)), mid_message_(peers_.size()) {}

SocketCommunicator::~SocketCommunicator() {
  leave(ErrorKind::kFailed, "");
}

SocketCommunicator::Transfer SocketCommunicator::sending(int peer, std::uint32_t kind,
                                                         Given out) const {
  Transfer transfer;
  transfer.peer = peer;
  transfer.sends = true;
  transfer.head_out = {kind, 0, out.size()};
  transfer.out = out;
  return transfer;
}

void SocketCommunicator::all_gather(Given mine, std::span<const Taken> all) {
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) {
      transfers.push_back(sending(peer, kGather, mine));
      transfers.back().receives = true;
      transfers.back().in = all[static_cast<std::size_t>(peer)];
    }
  }
  exchange(transfers);
}

void SocketCommunicator::gather(Given mine, std::span<const Taken> all) {
  std::vector<Transfer> transfers;
  if (rank_ != 0) {
    transfers.push_back(sending(0, kGather, mine));
  }
  for (int peer = 1; rank_ == 0 && peer < size(); ++peer) {
    Transfer& transfer = transfers.emplace_back();
    transfer.peer = peer;
    transfer.receives = true;
    transfer.in = all[static_cast<std::size_t>(peer)];
  }
  exchange(transfers);
}

void SocketCommunicator::broadcast(std::vector<std::byte>& message) {
  if (rank_ == 0) {
    std::vector<Transfer> transfers;
    for (int peer = 1; peer < size(); ++peer) {
      transfers.push_back(sending(peer, kBroadcast, message));
    }
    exchange(transfers);
    return;
  }
  Transfer transfer;
  transfer.receives = true;
  transfer.any_length = true;
  int looks = 0;  // in vain
  for (bool head_read = false; !head_read || !transfer.received_all();) {
    if (!receive_some(transfer) && ++looks > kLooks) {
      wait({transfer});
    }
    if (!head_read && transfer.received == sizeof(Head)) {
      head_read = true;
      message.resize(static_cast<std::size_t>(transfer.head_in.bytes));
      transfer.in = message;
    }
  }
}

void SocketCommunicator::exchange(std::vector<Transfer>& transfers) {
  try {
    complete(transfers);
  } catch (const RankEnded& ended) {
    if (ended.how() == End::kDied) {
      hear_why(transfers, ended.rank());
    }
    throw;
  }
}

// A rank that ends because another one has ended may be noticed before that one, which says why.
void SocketCommunicator::hear_why(std::vector<Transfer>& transfers, int ended) {
  std::erase_if(transfers, [ended](const Transfer& transfer) {
    return transfer.peer == ended || !transfer.receives;
  });
  const Deadline until = soon();
  while (std::chrono::steady_clock::now() < until) {
    bool waits = false;
    for (Transfer& transfer : transfers) {
      if (!transfer.received_all()) {
        receive_some(transfer);
        waits = waits || !transfer.received_all();
      }
    }
    if (!waits) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void SocketCommunicator::complete(std::vector<Transfer>& transfers) {
  int looks = 0;  // in vain
  for (;;) {
    bool moved = false;
    bool done = true;
    for (Transfer& transfer : transfers) {
      moved = (!transfer.sent_all() && send_some(transfer)) || moved;
      moved = (!transfer.received_all() && receive_some(transfer)) || moved;
      done = done && transfer.done();
    }
    if (done) {
      return;
    }
    if (moved) {
      looks = 0;
    } else if (++looks > kLooks) {
      wait(transfers);
    }
  }
}

void SocketCommunicator::wait(const std::vector<Transfer>& transfers) const {
  std::vector<pollfd> waited;
  for (const Transfer& transfer : transfers) {
    const int events = (transfer.sent_all() ? 0 : POLLOUT) | (transfer.received_all() ? 0 : POLLIN);
    if (events != 0) {
      waited.push_back({fd(transfer.peer), static_cast<short>(events), 0});
    }
  }
  poll(waited.data(), waited.size(), -1);  // by EINTR too all are tried again
}

// Whether something was sent.
bool SocketCommunicator::send_some(Transfer& transfer) {
  iovec parts[2];
  std::size_t count = 0;
  if (transfer.sent < sizeof(Head)) {
    parts[count++] = {reinterpret_cast<std::byte*>(&transfer.head_out) + transfer.sent,
                      sizeof(Head) - transfer.sent};
  }
  const std::size_t at = std::max(transfer.sent, sizeof(Head)) - sizeof(Head);
  if (at < transfer.out.size()) {
    parts[count++] = {const_cast<std::byte*>(transfer.out.data()) + at, transfer.out.size() - at};
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  const ssize_t sent = sendmsg(fd(transfer.peer), &message, MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return false;
    }
    fail_by(transfer.peer);
  }
  transfer.sent += static_cast<std::size_t>(sent);
  mid_message_[static_cast<std::size_t>(transfer.peer)] = !transfer.sent_all();
  return sent > 0;
}

// Whether something was received.
bool SocketCommunicator::receive_some(Transfer& transfer) {
  const bool in_head = transfer.received < sizeof(Head);
  std::byte* const to = in_head
                            ? reinterpret_cast<std::byte*>(&transfer.head_in) + transfer.received
                            : transfer.in.data() + (transfer.received - sizeof(Head));
  const std::size_t room = in_head ? sizeof(Head) - transfer.received
                                   : transfer.in.size() - (transfer.received - sizeof(Head));
  const ssize_t got = recv(fd(transfer.peer), to, room, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return false;
  }
  if (got <= 0) {
    fail_by(transfer.peer);
  }
  transfer.received += static_cast<std::size_t>(got);
  if (in_head && transfer.received == sizeof(Head)) {
    check_head(transfer);
  }
  return true;
}

void SocketCommunicator::check_head(const Transfer& transfer) {
  const Head& head = transfer.head_in;
  if (head.kind == kLeaving) {
    fail_as_told(transfer.peer, head);
  }
  const bool fits = transfer.any_length ? head.kind == kBroadcast && head.bytes <= kMostMessage
                                        : head.kind == kGather && head.bytes == transfer.in.size();
  core::require(fits, ErrorKind::kFailed,
                "the ranks are out of step: rank {} has sent something else than what is awaited",
                transfer.peer);
}

void SocketCommunicator::fail_as_told(int peer, const Head& head) {
  std::vector<std::byte> text(static_cast<std::size_t>(std::min(head.bytes, kMostText)));
  receive_all(peers_[static_cast<std::size_t>(peer)], text, soon());
  const auto kind =
      head.error >= 1 && head.error <= 7 ? static_cast<ErrorKind>(head.error) : ErrorKind::kFailed;
  const std::string why(reinterpret_cast<const char*>(text.data()), text.size());
  throw RankEnded(kind, why.empty() ? fmt::format("rank {} has ended", peer) : why, peer,
                  why.empty() ? End::kLeft : End::kFailed);
}

// The connection has broken: by a rank that has said why, or else that has died.
void SocketCommunicator::fail_by(int peer) {
  Head head;
  const bool told =
      receive_all(peers_[static_cast<std::size_t>(peer)],
                  std::as_writable_bytes(std::span(&head, 1)), std::chrono::steady_clock::now());
  if (told && head.kind == kLeaving) {
    fail_as_told(peer, head);
  }
  throw RankEnded(ErrorKind::kFailed,
                  fmt::format("rank {} of {} has died, or its host is gone", peer, size()), peer,
                  End::kDied);
}

void SocketCommunicator::leave(ErrorKind kind, std::string_view why) noexcept {
  if (left_) {
    return;
  }
  left_ = true;
  why = why.substr(0, kMostText);
  const Head head{kLeaving, static_cast<std::uint32_t>(kind), why.size()};
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_ || mid_message_[static_cast<std::size_t>(peer)]) {
      continue;
    }
    const io::FileDescriptor& socket = peers_[static_cast<std::size_t>(peer)];
    if (send_all(socket, std::as_bytes(std::span(&head, 1)), soon())) {
      send_all(socket, std::as_bytes(std::span(why)), soon());
    }
  }
}

std::optional<int> SocketCommunicator::lost() const {
  for (int peer = 0; peer < size(); ++peer) {
    if (has_ended(peer)) {
      return peer;
    }
  }
  return std::nullopt;
}

bool SocketCommunicator::has_ended(int rank) const {
  pollfd watched{fd(rank), POLLRDHUP, 0};
  return rank != rank_ && poll(&watched, 1, 0) > 0 &&
         (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace nibble::ranks
