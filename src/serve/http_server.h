#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_limits.h"
#include "serve/http_message.h"
#include "serve/listener.h"
#include "serve/log.h"

/// An HTTP/1.1 server for few kinds of answers, on one I/O thread. It knows nothing of models.
namespace nibble::serve {

/// The way back to one client, for one request. Any thread may call it; the work is done on the I/O
/// thread. Calls after the answer is complete, or after the client has gone, do nothing. One that
/// is destroyed without an answer gives status 500. None may outlive the server.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;

  /// The whole answer. A source that it has must not need anything that may be gone before the
  /// server is.
  virtual void respond(HttpResponse response) = 0;

  /// An answer of status 200 in parts. `heartbeat` is sent when nothing else was for
  /// HttpLimits::heartbeat_time, and to find out whether a client that has closed its side of the
  /// connection still listens; it must mean nothing to the client.
  virtual void begin_stream(HttpHeaders headers, std::string heartbeat) = 0;
  virtual void send(std::string part) = 0;
  virtual void end() = 0;

  /// `call` runs on the I/O thread when the client goes before the answer is complete, also when it
  /// has gone already.
  virtual void on_disconnect(std::function<void()> call) = 0;

  /// Whether the client has gone: whatever is still done for it is in vain.
  virtual bool gone() const = 0;
};

/// What became of a request.
struct HttpRecord {
  std::string id;
  std::string method;  // empty where the head could not be read
  std::string path;
  std::string remote;
  int status = 0;             // 499: the client went before there was one
  bool disconnected = false;  // the client went before the answer was complete
  bool large = false;         // the body or the answer took much memory
  std::chrono::duration<double> time{};
};

/// What the server asks whom it serves for; all on the I/O thread. None may block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  /// Called with a request without its body, before that is read: an answer refuses it.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& head) = 0;
  virtual void handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) = 0;
  /// The answer to a request that the server itself refuses.
  virtual HttpResponse error(int status, const std::string& message) = 0;
  virtual void finished(const HttpRecord& record) = 0;
  /// About ten times a second.
  virtual void tick() = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";  // of the listener
  HttpLimits limits;
};

/// Whether a host is only reached from this machine. Requests must then name it: a page of another
/// site that the user's browser shows can make that browser ask, but not with our name (DNS
/// rebinding).
bool is_loopback(const std::string& host);

class HttpServer {
 public:
  HttpServer(Listener listener, const HttpOptions& options, HttpHandler& handler, LogSink log);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

  /// Serves on the calling thread until stop().
  void run();
  /// Ends run() when the answers under way are written, or after `patience`. Any thread.
  void stop(std::chrono::milliseconds patience);
  /// Requests that have no whole answer yet. On the I/O thread.
  std::size_t unanswered() const;
  /// Runs `call` on the I/O thread. Any thread.
  void post(std::function<void()> call);
  /// `call` runs on the I/O thread for each signal of `signals`. Before run().
  void on_signal(const std::vector<int>& signals, std::function<void(int)> call);

  class Core;  // http_core.h

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace nibble::serve
