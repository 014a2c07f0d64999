#include "serve/http_server.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"
#include "serve/http_connection.h"
#include "serve/http_core.h"

namespace nibble::serve {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using tcp = net::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr auto kSweepTime = std::chrono::milliseconds(100);

}  // namespace

HttpServer::Core::Core(Listener listener, const HttpOptions& asked, HttpHandler& handles,
                       LogSink log_to)
    : options(asked),
      handler(handles),
      log(std::move(log_to)),
      port(listener.port()),
      bodies(std::make_shared<ByteBudget>(asked.limits.client_bytes, asked.limits.bodies_bytes)) {
  if (is_loopback(options.host)) {
    hosts = {"localhost", "127.0.0.1", "[::1]"};
  }
  acceptor.assign(listener.v6() ? tcp::v6() : tcp::v4(), listener.release());
}

std::string HttpServer::Core::next_id() {
  return fmt::format("req-{:016x}", ids_());
}

void HttpServer::Core::accept() {
  if (accepting_ || stopping || out_of_files_) {
    return;
  }
  accepting_ = true;
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    accepting_ = false;
    if (error == net::error::operation_aborted) {
      return;
    }
    if (error == net::error::no_descriptors ||
        error == boost::system::errc::too_many_files_open_in_system) {
      out_of_files_ = true;  // the next sweep tries again
      log({LogLevel::kWarning, "out of file descriptors; new connections wait", {}});
      return;
    }
    if (!error) {
      take(std::move(socket));
    }
    accept();
  });
}

void HttpServer::Core::take(tcp::socket socket) {
  const bool room = connections.size() < options.limits.connections || make_room();
  const auto connection = std::make_shared<HttpConnection>(*this, std::move(socket));
  connections.insert(connection);
  if (room) {
    connection->start();
  } else {
    connection->refuse_connection();
  }
}

// Closes the connection that has been idle for the longest time.
bool HttpServer::Core::make_room() {
  std::shared_ptr<HttpConnection> oldest;
  for (const auto& connection : connections) {
    if (connection->idle() && (!oldest || connection->idle_since() < oldest->idle_since())) {
      oldest = connection;
    }
  }
  if (oldest) {
    oldest->disconnect();
  }
  return oldest != nullptr;
}

// Until what is kept for answers is within its bound.
void HttpServer::Core::cut_off_the_slowest() {
  std::size_t bytes = 0;
  for (const auto& connection : connections) {
    bytes += connection->unwritten_bytes();
  }
  if (bytes <= options.limits.unwritten_bytes) {
    return;
  }
  const auto now = Clock::now();
  std::vector<std::pair<double, std::shared_ptr<HttpConnection>>> slow;
  for (const auto& connection : connections) {
    if (const auto pace = connection->pace(now)) {
      slow.emplace_back(*pace, connection);
    }
  }
  std::sort(slow.begin(), slow.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [pace, connection] : slow) {
    if (bytes <= options.limits.unwritten_bytes) {
      break;
    }
    bytes -= connection->unwritten_bytes();
    connection->cut_off("too much waits to be read, and this client reads the slowest");
  }
}

void HttpServer::Core::sweep_later() {
  timer_.expires_after(kSweepTime);
  timer_.async_wait([this](error_code error) {
    if (!error) {
      sweep();
    }
  });
}

void HttpServer::Core::sweep() {
  sweep_later();  // before anything can fail
  const auto now = Clock::now();
  const std::vector<std::shared_ptr<HttpConnection>> all(connections.begin(), connections.end());
  for (const auto& connection : all) {
    connection->sweep(now);
  }
  cut_off_the_slowest();
  if (stopping && (connections.empty() || now > stop_at_)) {
    io.stop();
    return;
  }
  if (out_of_files_) {
    out_of_files_ = false;
    accept();
  }
  handler.tick();
}

void HttpServer::Core::run() {
  accept();
  sweep_later();
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {  // of one call: the others go on
      log({LogLevel::kError, "a call on the I/O thread failed", {{"reason", error.what()}}});
    }
  }
}

void HttpServer::Core::stop(std::chrono::milliseconds patience) {
  const auto at = Clock::now() + patience;
  stop_at_ = stopping ? std::min(stop_at_, at) : at;
  stopping = true;
  if (acceptor.is_open()) {  // not close(): the socket may have a twin, which epoll goes on with
    ::close(acceptor.release());
  }
  if (patience.count() == 0 || connections.empty()) {
    io.stop();
  }
}

void HttpServer::Core::wait_for_signal() {
  signals.async_wait([this](error_code error, int number) {
    if (!error) {
      on_signal(number);
      wait_for_signal();
    }
  });
}

bool is_loopback(const std::string& host) {
  error_code error;
  const auto address = net::ip::make_address(host, error);
  return error ? same_name(host, "localhost") : address.is_loopback();
}

HttpServer::HttpServer(Listener listener, const HttpOptions& options, HttpHandler& handler,
                       LogSink log)
    : core_(std::make_shared<Core>(std::move(listener), options, handler, std::move(log))) {}

HttpServer::~HttpServer() {
  core_->destroyed = true;
  const auto connections = std::move(core_->connections);
}

std::uint16_t HttpServer::port() const {
  return core_->port;
}

void HttpServer::run() {
  core_->run();
}

void HttpServer::stop(std::chrono::milliseconds patience) {
  post([core = core_.get(), patience] { core->stop(patience); });
}

std::size_t HttpServer::unanswered() const {
  return static_cast<std::size_t>(
      std::count_if(core_->connections.begin(), core_->connections.end(),
                    [](const auto& connection) { return connection->answering(); }));
}

void HttpServer::post(std::function<void()> call) {
  net::post(core_->io, std::move(call));
}

void HttpServer::on_signal(const std::vector<int>& signals, std::function<void(int)> call) {
  for (const int signal : signals) {
    core_->signals.add(signal);
  }
  core_->on_signal = std::move(call);
  core_->wait_for_signal();
}

}  // namespace nibble::serve
