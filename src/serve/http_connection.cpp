#include "serve/http_connection.h"

#include <algorithm>
#include <utility>

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

namespace nibble::serve {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using tcp = net::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadAhead = 64 << 10;  // bytes of later requests that are taken early
constexpr std::size_t kLargeBody = 1 << 20;
constexpr std::size_t kMaxUnwritten = 256 << 10;  // answers to pipelined requests
constexpr std::size_t kLingerBytes = 16 << 20;
constexpr int kSendBuffer = 256 << 10;  // of the kernel, for each connection
constexpr int kClientGone = 499;
constexpr auto kPaceTime = std::chrono::seconds(1);  // that it takes to see how fast a client reads

// Whether the other side has refused what was sent to it.
bool is_reset(tcp::socket& socket) {
  pollfd state{socket.native_handle(), 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0;
}

// Who an address is to the server: of IPv6 everybody gets a network of 64 bits.
std::string client_of(const net::ip::address& address) {
  if (!address.is_v6() || address.to_v6().is_v4_mapped() || address.is_loopback()) {
    return address.to_string();
  }
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return net::ip::address_v6(bytes).to_string();
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
  client_ = ignored ? "" : client_of(end.address());
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
        more = !unread().empty() && output_.size() <= kMaxUnwritten && !core_.stopping;
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
  request.client = client_;
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
  using Verdict = ByteBudget::Verdict;
  const std::size_t taken = parser_->read_body(unread());
  take(taken);
  if (!body_share_) {
    body_share_ = std::make_shared<ByteShare>(core_.bodies, client_);
  }
  const Verdict verdict = body_share_->add(taken);
  if (parser_->refusal()) {
    fail(parser_->refusal()->status, parser_->refusal()->message);
  } else if (verdict == Verdict::kTooManyInAll) {
    fail(503, "the server is receiving too much at once; try again later");
  } else if (verdict == Verdict::kClientHasTooMany) {
    fail(429, "too much that this client has sent waits; try again later");
  } else if (parser_->done()) {
    dispatch();
  }
  return false;
}

void HttpConnection::dispatch() {
  HttpRequest request = std::move(parser_->request());
  request.body_share = std::move(body_share_);
  record_.large = request.body.size() >= kLargeBody;
  parser_.reset();
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
  HttpResponse response = core_.handler.error(status, message);
  if (status == 429 || status == 503) {
    response.headers.push_back({"Retry-After", "1"});
  }
  respond(serial_, std::move(response));
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
  closed_ = true;
  body_share_.reset();
  error_code ignored;
  if (answered) {
    socket_.set_option(net::socket_base::linger(true, 0), ignored);
  }
  socket_.close(ignored);
  output_.clear();
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

void HttpConnection::cut_off(const char* why) {
  core_.log({LogLevel::kWarning, why, {{"request", record_.id}, {"remote", remote_}}});
  disconnect();
}

// What the kernel has taken and the other side has not is not read yet.
std::uint64_t HttpConnection::taken_by_client() {
  int on_the_way = 0;
  ::ioctl(socket_.native_handle(), SIOCOUTQ, &on_the_way);
  const auto bytes = static_cast<std::uint64_t>(std::max(0, on_the_way));
  return output_.taken() - std::min(output_.taken(), bytes);
}

std::uint64_t HttpConnection::taken_since() {
  return std::max(taken_by_client(), taken_at_) - taken_at_;
}

std::optional<double> HttpConnection::pace(Clock::time_point now) {
  const std::chrono::duration<double> time = now - waited_since_;
  if (!writing_ || time < kPaceTime) {
    return std::nullopt;
  }
  return static_cast<double>(taken_since()) / time.count();
}

bool HttpConnection::is_too_slow(Clock::time_point now) {
  if (!writing_ || now - waited_since_ < limits().pace_time) {
    return false;
  }
  const bool too_slow = taken_since() < limits().pace_bytes;
  waited_since_ = now;
  taken_at_ = taken_by_client();
  return too_slow;
}

void HttpConnection::sweep(Clock::time_point now) {
  if (is_too_slow(now)) {
    cut_off("a client reads too slowly");
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
  sweep_phase(now);
}

void HttpConnection::sweep_phase(Clock::time_point now) {
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
