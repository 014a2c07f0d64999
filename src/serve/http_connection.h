#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/byte_budget.h"
#include "serve/http_core.h"
#include "serve/http_output.h"
#include "serve/http_parser.h"

namespace nibble::serve {

class HttpConnection;

std::shared_ptr<HttpResponder> make_responder(std::shared_ptr<HttpConnection> connection,
                                              std::uint64_t serial);

/// One client: reads its requests one after the other (http_connection.cpp) and writes the answers
/// in their order (http_answering.cpp). All of it runs on the I/O thread, but closed().
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Core = HttpServer::Core;
  using Clock = std::chrono::steady_clock;

  HttpConnection(Core& core, boost::asio::ip::tcp::socket socket);

  void start() { read(); }
  void refuse_connection();
  bool answering() const { return phase_ == Phase::kHandling || phase_ == Phase::kStreaming; }
  bool idle() const { return phase_ == Phase::kIdle && !writing_; }
  Clock::time_point idle_since() const { return since_; }
  void close_when_done();
  void disconnect();
  void cut_off(const char* why);
  void sweep(Clock::time_point now);

  // What responders ask for; `serial` is the number of their request.
  void respond(std::uint64_t serial, HttpResponse response);
  void begin_stream(std::uint64_t serial, HttpHeaders headers, std::string heartbeat);
  void send(std::uint64_t serial, std::string_view part);
  void end(std::uint64_t serial);
  void on_disconnect(std::uint64_t serial, std::function<void()> call);
  void abandoned(std::uint64_t serial);
  Core& core() { return core_; }
  bool closed() const { return closed_; }

  /// Memory that is kept for what the client has not taken.
  std::size_t unwritten_bytes() const { return output_.held_bytes(); }
  /// Bytes per second that it takes of what waits for it; nothing where it was not waited for long
  /// enough to tell.
  std::optional<double> pace(Clock::time_point now);

 private:
  enum class Phase { kIdle, kHead, kBody, kHandling, kStreaming, kClosing, kLinger, kClosed };

  bool is_current(std::uint64_t serial) const { return answering() && serial == serial_; }
  const HttpLimits& limits() const { return core_.options.limits; }
  void limit_time(std::chrono::milliseconds time) {
    since_ = Clock::now();
    deadline_ = since_ + time;
  }

  void read();
  void on_readable();
  std::string_view unread() const { return std::string_view(input_).substr(taken_); }
  void take(std::size_t bytes);
  void on_eof();
  void probe();
  void process();
  void begin_message();
  bool read_head();
  void admit();
  bool read_body();
  void dispatch();
  void fail(int status, const std::string& message);
  void finish_message();
  void report();
  void sweep_phase(Clock::time_point now);

  std::string head_of(int status, HttpHeaders headers, const HttpHeader& framing) const;
  void begin_body(int status, HttpHeaders headers);
  void respond_in_parts(HttpResponse response);
  void write(std::string_view bytes);
  void write_some();
  void on_written(std::size_t bytes);
  void on_drained();
  bool is_too_slow(Clock::time_point now);
  std::uint64_t taken_by_client();
  std::uint64_t taken_since();
  void linger();

  Core& core_;
  boost::asio::ip::tcp::socket socket_;
  std::string remote_;
  std::string client_;
  std::atomic<bool> closed_{false};
  Phase phase_ = Phase::kIdle;
  Clock::time_point since_{};
  Clock::time_point deadline_{};

  // Reading.
  std::string input_;
  std::size_t taken_ = 0;  // of input_
  bool reading_ = false;
  bool eof_ = false;
  std::optional<HttpParser> parser_;
  std::shared_ptr<ByteShare> body_share_;
  std::size_t lingered_ = 0;

  // The request that is read or answered.
  HttpRecord record_;
  Clock::time_point started_{};
  std::uint64_t serial_ = 0;
  std::string version_ = "1.1";
  bool is_head_ = false;
  bool keep_alive_ = false;
  bool chunked_ = false;
  std::string heartbeat_;
  std::function<void()> on_disconnect_;

  // Writing.
  HttpOutput output_;
  bool writing_ = false;
  Clock::time_point last_write_{};
  Clock::time_point waited_since_{};  // for the client to take what is there
  std::uint64_t taken_at_ = 0;        // by it, then
};

}  // namespace nibble::serve
