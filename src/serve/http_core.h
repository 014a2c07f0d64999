#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>  // Boost 1.74 uses it and does not include it
#include <vector>

#include <boost/asio.hpp>

#include "serve/byte_budget.h"
#include "serve/http_server.h"

namespace nibble::serve {

class HttpConnection;

/// What the connections of a server share; on the I/O thread.
class HttpServer::Core {
 public:
  Core(Listener listener, const HttpOptions& asked, HttpHandler& handles, LogSink log_to);

  void run();
  void stop(std::chrono::milliseconds patience);
  void wait_for_signal();
  void remove(const std::shared_ptr<HttpConnection>& connection) { connections.erase(connection); }
  std::string next_id();

  HttpOptions options;
  HttpHandler& handler;
  LogSink log;
  std::uint16_t port;
  std::vector<std::string> hosts;  // by which clients may call the server; empty: any
  boost::asio::io_context io{1};
  boost::asio::ip::tcp::acceptor acceptor{io};
  boost::asio::signal_set signals{io};
  std::function<void(int)> on_signal;
  std::unordered_set<std::shared_ptr<HttpConnection>> connections;
  std::shared_ptr<ByteBudget> bodies;        // that arrive or wait to be worked on
  std::array<char, 64 << 10> read_buffer{};  // of whoever reads just now
  bool stopping = false;
  bool destroyed = false;

 private:
  void accept();
  void take(boost::asio::ip::tcp::socket socket);
  bool make_room();
  void sweep_later();
  void sweep();
  void cut_off_the_slowest();

  boost::asio::steady_timer timer_{io};
  std::mt19937_64 ids_{std::random_device{}()};
  bool accepting_ = false;
  bool out_of_files_ = false;
  std::chrono::steady_clock::time_point stop_at_{};
};

}  // namespace nibble::serve
