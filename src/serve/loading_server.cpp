#include "serve/loading_server.h"

#include <utility>

#include "core/start_thread.h"
#include "serve/api_error.h"
#include "serve/health_answers.h"

namespace nibble::serve {
namespace {

constexpr auto kLastWords = std::chrono::milliseconds(100);

}  // namespace

LoadingServer::LoadingServer(Listener listener, const HttpOptions& options, const LogSink& log)
    : server_(std::move(listener), options, *this, log), thread_(core::start_thread([this, log] {
        try {
          server_.run();
        } catch (const std::exception& error) {
          log({LogLevel::kError, "nobody is answered yet", {{"reason", error.what()}}});
        }
      })) {}

LoadingServer::~LoadingServer() {
  server_.stop(kLastWords);
  thread_.join();
}

// Bodies are not waited for.
std::optional<HttpResponse> LoadingServer::refuse(const HttpRequest& head) {
  if (head.path == "/livez") {
    return live_answer(true);
  }
  if (head.path == "/health" || head.path == "/readyz") {
    return health_answer("loading");
  }
  ApiError error = plain_error(503, "the model is being loaded");
  error.retry_after = 1;
  return error.response();
}

void LoadingServer::handle(HttpRequest, std::shared_ptr<HttpResponder>) {}  // all are refused

HttpResponse LoadingServer::error(int status, const std::string& message) {
  return plain_error(status, message).response();
}

}  // namespace nibble::serve
