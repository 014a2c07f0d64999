#include "serve/http_connection.h"

#include <utility>

#include <fmt/format.h>
#include <poll.h>

namespace nibble::serve {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using tcp = net::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadAhead = 64 << 10;      // bytes of later requests that are taken early
constexpr std::size_t kMaxUnwritten = 256 << 10;  // answers to pipelined requests
constexpr std::size_t kLingerBytes = 16 << 20;
constexpr int kSendBuffer = 256 << 10;  // of the kernel, for each connection
constexpr int kClientGone = 499;

// Whether the other side has refused what was sent to it.
bool is_reset(tcp::socket& socket) {
  pollfd state{socket.native_handle(), 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0;
}

std::string chunk(std::string_view part) {
  return fmt::format("{:x}\r\n{}\r\n", part.size(), part);
}

}  // namespace

HttpConnection::HttpConnection(Core& core, tcp::socket socket)
    : core_(core), socket_(std::move(socket)) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(net::socket_base::send_buffer_size(kSendBuffer), ignored);
  const auto end = socket_.remote_endpoint(ignored);
  remote_ = ignored ? "" : end.address().to_string();
  limit_time(core_.options.limits.idle_time);
  started_ = since_;
}

// ---- reading

// Memory is only taken once there is something to read.
void HttpConnection::read() {
  const bool enough = answering() && unread().size() >= kReadAhead;
  if (reading_ || eof_ || phase_ == Phase::kClosed || phase_ == Phase::kClosing || enough) {
    return;
  }
  reading_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    self->reading_ = false;
    if (!error && self->phase_ != Phase::kClosed) {
      self->on_readable();
    }
  });
}

void HttpConnection::on_readable() {
  error_code error;
  const std::size_t bytes = socket_.read_some(net::buffer(core_.read_buffer), error);
  if (error == net::error::eof) {
    on_eof();
    return;
  }
  if (error && error != net::error::would_block) {
    disconnect();
    return;
  }
  if (phase_ == Phase::kLinger) {
    lingered_ += bytes;
    if (lingered_ > kLingerBytes) {
      disconnect();
      return;
    }
  } else if (bytes > 0) {
    input_.erase(0, std::exchange(taken_, 0));
    input_.append(core_.read_buffer.data(), bytes);
    process();
  }
  read();
}

void HttpConnection::take(std::size_t bytes) {
  taken_ += bytes;
  if (taken_ == input_.size()) {
    input_ = std::string();
    taken_ = 0;
  }
}

void HttpConnection::on_eof() {
  eof_ = true;
  if (phase_ == Phase::kLinger) {
    disconnect();
  } else if (answering()) {
    probe();
  } else {
    process();
  }
}

// Where the client has closed its side, or all of the connection, only bytes that it refuses tell;
// sweep() then sees that.
void HttpConnection::probe() {
  if (phase_ == Phase::kStreaming) {
    send(serial_, heartbeat_);
  } else if (version_ == "1.1") {
    write("HTTP/1.1 100 Continue\r\n\r\n");  // an answer of its own that clients pass over
  }
}

void HttpConnection::process() {
  bool more = true;
  while (more) {
    switch (phase_) {
      case Phase::kIdle: {
        more = !unread().empty() && pending_.size() <= kMaxUnwritten && !core_.stopping;
        if (more) {
          begin_message();
        } else if (eof_ && unread().empty()) {
          close_when_done();
        }
        break;
      }
      case Phase::kHead:
        more = read_head();
        break;
      case Phase::kBody:
        more = read_body();
        break;
      default:
        more = false;
    }
  }
  if (eof_ && (phase_ == Phase::kHead || phase_ == Phase::kBody)) {
    disconnect();  // the message will never be whole
  }
}

void HttpConnection::begin_message() {
  phase_ = Phase::kHead;
  limit_time(limits().head_time);
  started_ = since_;
  parser_.emplace(limits(), core_.hosts);
  record_ = HttpRecord{};
  record_.id = core_.next_id();
  record_.remote = remote_;
  keep_alive_ = false;
  is_head_ = false;
  version_ = "1.1";
}

bool HttpConnection::read_head() {
  std::size_t taken = 0;
  do {
    taken = parser_->read_head(unread());
    take(taken);
  } while (taken > 0 && !parser_->head_done() && !parser_->refusal());
  if (parser_->refusal()) {
    record_.method = parser_->request().method;
    fail(parser_->refusal()->status, parser_->refusal()->message);
    return false;
  }
  if (!parser_->head_done()) {
    return false;
  }
  admit();
  return true;
}

// Decides, before the body is read, whether it is wanted.
void HttpConnection::admit() {
  HttpRequest& request = parser_->request();
  request.id = record_.id;
  request.remote = remote_;
  record_.method = request.method;
  record_.path = request.path;
  version_ = request.version;
  is_head_ = request.method == "HEAD";
  if (auto answer = core_.handler.refuse(request)) {
    keep_alive_ = parser_->done() && parser_->keep_alive();
    phase_ = Phase::kHandling;
    respond(++serial_, std::move(*answer));
    return;
  }
  if (const std::string* expect = request.find("expect"); expect != nullptr && !parser_->done()) {
    if (!same_name(*expect, "100-continue")) {
      fail(417, "the only expectation that is known is 100-continue");
      return;
    }
    if (version_ == "1.1" && unread().empty()) {
      write("HTTP/1.1 100 Continue\r\n\r\n");
    }
  }
  keep_alive_ = parser_->keep_alive();
  phase_ = Phase::kBody;
  limit_time(limits().body_time);
}

bool HttpConnection::read_body() {
  const std::size_t taken = parser_->read_body(unread());
  take(taken);
  body_bytes_ += taken;
  core_.body_bytes += taken;
  if (parser_->refusal()) {
    fail(parser_->refusal()->status, parser_->refusal()->message);
  } else if (core_.body_bytes > limits().bodies_bytes) {
    fail(503, "the server is receiving too much at once; try again later");
  } else if (parser_->done()) {
    dispatch();
  }
  return false;
}

void HttpConnection::release_body() {
  core_.body_bytes -= body_bytes_;
  body_bytes_ = 0;
}

void HttpConnection::dispatch() {
  HttpRequest request = std::move(parser_->request());
  parser_.reset();
  release_body();
  phase_ = Phase::kHandling;
  ++serial_;
  if (eof_) {
    probe();
  }
  try {
    core_.handler.handle(std::move(request), make_responder(shared_from_this(), serial_));
  } catch (const std::exception& error) {  // the responder that was dropped answers
    core_.log({LogLevel::kError,
               "a request could not be handled",
               {{"request", record_.id}, {"reason", error.what()}}});
  }
}

void HttpConnection::fail(int status, const std::string& message) {
  keep_alive_ = false;
  if (phase_ != Phase::kHandling) {
    ++serial_;
  }
  phase_ = Phase::kHandling;
  respond(serial_, core_.handler.error(status, message));
}

// ---- answering

void HttpConnection::respond(std::uint64_t serial, HttpResponse response) {
  if (!is_current(serial)) {
    return;
  }
  if (phase_ == Phase::kStreaming) {
    end(serial);
    return;
  }
  record_.status = response.status;
  const HttpHeader length{"Content-Length", std::to_string(response.body.size())};
  write(head_of(response.status, std::move(response.headers),
                response.status == 204 ? HttpHeader{} : length) +
        (is_head_ || response.status == 204 ? "" : response.body));
  finish_message();
}

std::string HttpConnection::head_of(int status, HttpHeaders headers,
                                    const HttpHeader& framing) const {
  if (!framing.name.empty()) {
    headers.push_back(framing);
  }
  if (!record_.id.empty()) {
    headers.push_back({"x-request-id", record_.id});
  }
  headers.push_back({"Connection", keep_alive_ && !core_.stopping ? "keep-alive" : "close"});
  return response_head(status, headers) + "\r\n";
}

void HttpConnection::begin_stream(std::uint64_t serial, HttpHeaders headers,
                                  std::string heartbeat) {
  if (!is_current(serial) || phase_ == Phase::kStreaming) {
    return;
  }
  phase_ = Phase::kStreaming;
  record_.status = 200;
  chunked_ = version_ == "1.1";
  keep_alive_ = keep_alive_ && chunked_;
  heartbeat_ = std::move(heartbeat);
  write(head_of(200, std::move(headers),
                chunked_ ? HttpHeader{"Transfer-Encoding", "chunked"} : HttpHeader{}));
  if (eof_) {
    send(serial, heartbeat_);
  }
}

void HttpConnection::send(std::uint64_t serial, std::string_view part) {
  if (!is_current(serial) || phase_ != Phase::kStreaming || part.empty()) {
    return;
  }
  write(chunked_ ? chunk(part) : std::string(part));
  if (pending_.size() + current_.size() - written_ > limits().stream_bytes) {
    core_.log({LogLevel::kWarning,
               "a client does not read its stream; cut off",
               {{"request", record_.id}, {"remote", remote_}}});
    disconnect();
  }
}

void HttpConnection::end(std::uint64_t serial) {
  if (!is_current(serial) || phase_ != Phase::kStreaming) {
    return;
  }
  if (chunked_) {
    write("0\r\n\r\n");
  }
  finish_message();
}

void HttpConnection::on_disconnect(std::uint64_t serial, std::function<void()> call) {
  if (is_current(serial)) {
    on_disconnect_ = std::move(call);
  } else if (phase_ == Phase::kClosed && serial == serial_) {
    call();
  }
}

void HttpConnection::abandoned(std::uint64_t serial) {
  if (is_current(serial) && phase_ == Phase::kStreaming) {
    disconnect();  // what was sent is not whole, and the client must see that
  } else if (is_current(serial)) {
    respond(serial, core_.handler.error(500, "the request was not answered"));
  }
}

void HttpConnection::finish_message() {
  report();
  release_body();
  parser_.reset();
  on_disconnect_ = nullptr;
  if (!keep_alive_ || core_.stopping) {
    close_when_done();
    return;
  }
  phase_ = Phase::kIdle;
  limit_time(limits().idle_time);
  net::post(core_.io, [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle) {
      self->process();
      self->read();
    }
  });
}

void HttpConnection::report() {
  record_.time = Clock::now() - started_;
  core_.handler.finished(record_);
}

void HttpConnection::write(std::string_view bytes) {
  pending_ += bytes;
  last_write_ = Clock::now();
  if (!writing_) {
    current_.swap(pending_);
    pending_.clear();
    written_ = 0;
    writing_ = true;
    write_some();
  }
}

void HttpConnection::write_some() {
  socket_.async_write_some(net::buffer(current_.data() + written_, current_.size() - written_),
                           [self = shared_from_this()](error_code error, std::size_t bytes) {
                             if (self->phase_ == Phase::kClosed) {
                               return;
                             }
                             if (error) {
                               self->disconnect();
                               return;
                             }
                             self->written_ += bytes;
                             self->last_write_ = Clock::now();
                             self->on_written();
                           });
}

void HttpConnection::on_written() {
  if (written_ < current_.size()) {
    write_some();
    return;
  }
  current_.clear();
  written_ = 0;
  writing_ = false;
  if (!pending_.empty()) {
    write({});
  } else if (phase_ == Phase::kClosing) {
    linger();
  } else if (phase_ == Phase::kIdle) {
    process();
  }
}

// ---- closing

void HttpConnection::refuse_connection() {
  phase_ = Phase::kHandling;
  keep_alive_ = false;
  respond(serial_, core_.handler.error(503, "there are too many connections; try again later"));
}

void HttpConnection::close_when_done() {
  phase_ = Phase::kClosing;
  if (!writing_) {
    linger();
  }
}

// A socket that is closed with unread bytes takes back what was sent: the refusal would be lost.
void HttpConnection::linger() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  if (eof_ || ignored) {
    disconnect();
    return;
  }
  phase_ = Phase::kLinger;
  limit_time(limits().linger_time);
  take(unread().size());
  read();
}

void HttpConnection::disconnect() {
  if (phase_ == Phase::kClosed) {
    return;
  }
  const bool answered = answering();
  phase_ = Phase::kClosed;
  release_body();
  error_code ignored;
  if (answered) {
    socket_.set_option(net::socket_base::linger(true, 0), ignored);
  }
  socket_.close(ignored);
  pending_.clear();
  if (answered) {
    record_.disconnected = true;
    record_.status = record_.status == 0 ? kClientGone : record_.status;
    report();
    if (const auto call = std::exchange(on_disconnect_, nullptr)) {
      call();
    }
  }
  core_.remove(shared_from_this());
}

void HttpConnection::sweep(Clock::time_point now) {
  if (writing_ && now - last_write_ > limits().write_time) {
    disconnect();
    return;
  }
  if (eof_ && answering() && is_reset(socket_)) {
    disconnect();
    return;
  }
  const bool silent = !writing_ && now - last_write_ > limits().heartbeat_time;
  if (silent && (phase_ == Phase::kStreaming || (eof_ && answering()))) {
    probe();
  }
  switch (phase_) {
    case Phase::kIdle:
      if ((now > deadline_ || core_.stopping) && !writing_) {
        close_when_done();
      }
      break;
    case Phase::kHead:
    case Phase::kBody:
      if (core_.stopping) {
        disconnect();
      } else if (now > deadline_) {
        fail(408, "the request did not arrive in time");
      }
      break;
    case Phase::kLinger:
      if (now > deadline_) {
        disconnect();
      }
      break;
    default:
      break;
  }
}

}  // namespace nibble::serve
