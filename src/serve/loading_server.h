#pragma once

#include <thread>

#include "serve/http_server.h"
#include "serve/listener.h"

namespace nibble::serve {

/// Answers while there is no model yet, on a thread of its own: /livez 200, /health and /readyz 503
/// with the state "loading", everything else 503 with Retry-After.
class LoadingServer final : private HttpHandler {
 public:
  LoadingServer(Listener listener, const HttpOptions& options, const LogSink& log);
  /// Answers what is being asked. Connections that it has not taken wait in the listener's twin.
  ~LoadingServer() override;

 private:
  std::optional<HttpResponse> refuse(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) override;
  HttpResponse error(int status, const std::string& message) override;
  void finished(const HttpRecord&) override {}
  void tick() override {}

  HttpServer server_;
  std::thread thread_;
};

}  // namespace nibble::serve
