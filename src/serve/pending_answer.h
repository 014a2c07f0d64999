#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>

#include "serve/api_error.h"

namespace nibble::serve {

/// An answer for which the engine works. On the I/O thread.
class PendingAnswer {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~PendingAnswer() = default;

  /// Gives up: tells the client, unless it has gone, and cancels what runs.
  virtual void fail(const ApiError& error) = 0;
  /// Texts that the engine will be given later.
  virtual std::size_t waiting() const = 0;

  Clock::time_point began() const { return began_; }

  /// Called once, when nothing will come any more.
  using Done = std::function<void(PendingAnswer&)>;

 private:
  Clock::time_point began_ = Clock::now();
};

/// What a client is told of a failure inside the server.
using Explain = std::function<ApiError(const std::exception_ptr& failure)>;

}  // namespace nibble::serve
