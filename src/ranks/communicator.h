#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"

/// Processes, on one host or several, that run one model together ("ranks", as MPI calls them).
namespace nibble::ranks {

/// How a rank has ended.
enum class End {
  kDied,    // without a word: nobody has told the user yet
  kFailed,  // and said why: it, or rank 0, tells the user
  kLeft,    // there was nothing more to do
};

/// Another rank has ended, so that this one cannot go on.
class RankEnded : public core::Error {
 public:
  RankEnded(core::ErrorKind kind, const std::string& message, int rank, End how)
      : Error(kind, message), rank_(rank), how_(how) {}
  int rank() const { return rank_; }
  End how() const { return how_; }

 private:
  int rank_;
  End how_;
};

/// How the ranks of a job speak with one another. All of them make the same calls in the same
/// order; a call returns when this rank has what it gets and has given what it gives. One caller at
/// a time, but for lost() and has_ended(). All throw RankEnded, and kFailed when ranks are out of
/// step: then the communicator is of no more use.
class Communicator {
 public:
  using Given = std::span<const std::byte>;
  using Taken = std::span<std::byte>;

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Every rank gives `mine` and takes what the others give: all[r], as long as what rank r gives.
  /// all[rank()] is left alone.
  virtual void all_gather(Given mine, std::span<const Taken> all) = 0;
  /// The same, where only rank 0 takes.
  virtual void gather(Given mine, std::span<const Taken> all) = 0;
  /// The message of rank 0 to all others, whose own is replaced by it.
  virtual void broadcast(std::vector<std::byte>& message) = 0;

  /// Tells the others, as far as that can be done, that this rank ends and why; an empty text is no
  /// failure. Without it they take its end for its death.
  virtual void leave(core::ErrorKind kind, std::string_view why) noexcept = 0;
  /// A rank whose connection has ended, whoever else waits for it. Never waits; any thread.
  virtual std::optional<int> lost() const = 0;
  /// Whether the connection to that rank has ended. Never waits; any thread.
  virtual bool has_ended(int rank) const = 0;
};

}  // namespace nibble::ranks
