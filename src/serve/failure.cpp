#include "serve/failure.h"

#include "core/error.h"

namespace nibble::serve {

ApiError explain_failure(const std::exception_ptr& failure, const std::string& request,
                         const LogSink& log) {
  std::string reason = "out of memory";
  bool no_memory = false;
  try {
    std::rethrow_exception(failure);
  } catch (const ApiError& error) {
    return error;
  } catch (const core::Error& error) {
    if (error.kind() == core::ErrorKind::kUsage) {
      return plain_error(400, error.what());
    }
    reason = error.what();
    no_memory = error.kind() == core::ErrorKind::kOutOfMemory;
  } catch (const std::bad_alloc&) {
    no_memory = true;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  log({no_memory ? LogLevel::kWarning : LogLevel::kError,
       "a request failed",
       {{"request", request}, {"reason", reason}}});
  return no_memory ? plain_error(503, "the server is out of memory; try again later")
                   : plain_error(500, "the request failed inside the server; its log says why");
}

std::string reason_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const core::Error& error) {
    if (error.kind() == core::ErrorKind::kIo || error.kind() == core::ErrorKind::kIntegrity) {
      return "the model's files were changed or cannot be read; restore them and start again";
    }
  } catch (...) {
  }
  return "what was computed last failed inside the server; its log says why";
}

}  // namespace nibble::serve
