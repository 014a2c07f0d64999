#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serve/body_source.h"
#include "serve/http_server.h"
#include "serve/raw_client_for_tests.h"

namespace nibble::serve {

/// /echo gives the body back; /wait answers when the test says so; /stream sends what the test
/// says; /keep keeps the request, too; /parts answers with the source that the test has made.
class Application : public HttpHandler {
 public:
  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    if (head.path == "/refused") {
      return HttpResponse{401, {}, "no"};
    }
    return std::nullopt;
  }
  void handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) override {
    if (request.path == "/wait" || request.path == "/stream") {
      responder->on_disconnect([this] { ++disconnects; });
      if (request.path == "/stream") {
        responder->begin_stream({{"Content-Type", "text/plain"}}, "~");
      }
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(responder));
    } else if (request.path == "/keep") {
      const std::lock_guard lock(mutex);
      kept.push_back(std::move(request));
      waiting.push_back(std::move(responder));
    } else if (request.path == "/parts") {
      responder->respond({200, {}, "begin ", make_source()});
    } else if (request.path == "/throw") {
      throw std::runtime_error("out of order");
    } else {
      responder->respond({200, {{"X-Text", "a\r\nb"}}, request.method + " " + request.body});
    }
  }
  HttpResponse error(int status, const std::string& message) override {
    return {status, {}, message};
  }
  void finished(const HttpRecord& record) override {
    const std::lock_guard lock(mutex);
    records.push_back(record);
  }
  void tick() override {
    if (failing_ticks > 0) {
      --failing_ticks;
      throw std::bad_alloc();
    }
  }

  std::shared_ptr<HttpResponder> next() {
    for (int i = 0; i < 1000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (!waiting.empty()) {
          auto responder = std::move(waiting.front());
          waiting.erase(waiting.begin());
          return responder;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return nullptr;
  }
  bool disconnected(int count) {
    for (int i = 0; i < 1000 && disconnects < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return disconnects == count;
  }

  std::function<std::shared_ptr<BodySource>()> make_source;
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpResponder>> waiting;
  std::vector<HttpRequest> kept;
  std::vector<HttpRecord> records;
  std::atomic<int> disconnects{0};
  std::atomic<int> failing_ticks{0};
};

/// The server on loopback, with an application of a few lines.
class HttpServerTest : public ::testing::Test {
 protected:
  void start(const HttpLimits& limits = {}) {
    server_ =
        std::make_unique<HttpServer>(Listener("127.0.0.1", 0), HttpOptions{"127.0.0.1", limits},
                                     application_, [this](const LogRecord& record) {
                                       const std::lock_guard lock(application_.mutex);
                                       log_.push_back(record.message);
                                     });
    port_ = server_->port();
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (server_) {
      application_.waiting.clear();
      server_->stop(std::chrono::milliseconds(500));
      thread_.join();
      server_.reset();
    }
  }
  RawClient connect() const { return RawClient(port_); }
  int good() const { return ask(port_, "POST", "/echo", "hi").status; }

  Application application_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  std::vector<std::string> log_;
  int port_ = 0;
};

inline std::string get(std::string_view path, std::string_view headers = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, headers);
}

}  // namespace nibble::serve
