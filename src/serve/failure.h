#pragma once

#include <exception>
#include <string>

#include "serve/api_error.h"
#include "serve/log.h"

namespace nibble::serve {

/// What a client is told of a failure inside the server. In full only what its own request did
/// wrong: other messages may name files and devices, and go to the log, under the request's id. Any
/// thread.
ApiError explain_failure(const std::exception_ptr& failure, const std::string& request,
                         const LogSink& log);

/// The same of a failure that is said in /health: why, in words that name nothing of the machine.
std::string reason_of(const std::exception_ptr& failure);

}  // namespace nibble::serve
