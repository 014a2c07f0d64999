#include "serve/raw_client_for_tests.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace nibble::serve {
namespace {

constexpr int kPatience = 10'000;  // milliseconds

}  // namespace

RawClient::RawClient(int port, int receive_buffer) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_buffer > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close();
  }
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd waits{socket_, POLLOUT, 0};
    if (poll(&waits, 1, kPatience) <= 0) {
      return false;
    }
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void RawClient::close_writing() {
  shutdown(socket_, SHUT_WR);
}

void RawClient::close() {
  if (socket_ >= 0) {
    ::close(socket_);
    socket_ = -1;
  }
}

void RawClient::reset() {
  const linger now{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close();
}

bool RawClient::receive() {
  pollfd waits{socket_, POLLIN, 0};
  if (socket_ < 0 || poll(&waits, 1, kPatience) <= 0) {
    left_ += socket_ < 0 ? "" : "TIMEOUT";
    return false;
  }
  char buffer[16384];
  const ssize_t got = recv(socket_, buffer, sizeof(buffer), 0);
  if (got <= 0) {
    return false;
  }
  left_.append(buffer, static_cast<std::size_t>(got));
  return true;
}

std::string RawClient::read_all() {
  while (receive()) {
  }
  return std::exchange(left_, {});
}

std::size_t RawClient::read_some(std::size_t bytes) {
  pollfd waits{socket_, POLLIN, 0};
  if (poll(&waits, 1, kPatience) <= 0) {
    return 0;
  }
  std::string buffer(bytes, '\0');
  return static_cast<std::size_t>(std::max<ssize_t>(0, recv(socket_, buffer.data(), bytes, 0)));
}

std::string RawClient::read_until(std::string_view text) {
  while (left_.find(text) == std::string::npos) {
    if (!receive()) {
      return std::exchange(left_, {});
    }
  }
  const std::size_t end = left_.find(text) + text.size();
  std::string read = left_.substr(0, end);
  left_.erase(0, end);
  return read;
}

std::string RawClient::Answer::header(std::string_view name) const {
  const std::string key = fmt::format("\r\n{}: ", name);
  const std::size_t at = head.find(key);
  return at == std::string::npos
             ? ""
             : head.substr(at + key.size(), head.find("\r\n", at + 2) - at - key.size());
}

RawClient::Answer RawClient::read_answer(bool has_body) {
  Answer answer;
  answer.head = read_until("\r\n\r\n");
  if (answer.head.size() > 12) {
    answer.status = std::atoi(answer.head.c_str() + 9);
  }
  if (!has_body) {
    return answer;
  }
  if (answer.header("Transfer-Encoding") == "chunked") {
    for (;;) {
      const std::size_t size = std::strtoul(read_until("\r\n").c_str(), nullptr, 16);
      while (left_.size() < size + 2 && receive()) {
      }
      answer.body += left_.substr(0, size);
      left_.erase(0, std::min(left_.size(), size + 2));
      if (size == 0) {
        return answer;
      }
    }
  }
  const std::size_t size = std::strtoul(answer.header("Content-Length").c_str(), nullptr, 10);
  while (left_.size() < size && receive()) {
  }
  answer.body = left_.substr(0, size);
  left_.erase(0, std::min(left_.size(), size));
  return answer;
}

RawClient::Answer ask(int port, std::string_view method, std::string_view path,
                      std::string_view body, std::string_view headers) {
  RawClient client(port);
  client.send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}", method,
                          path, headers));
  client.send(body.empty() ? "\r\n"
                           : fmt::format("Content-Type: application/json\r\nContent-Length: "
                                         "{}\r\n\r\n{}",
                                         body.size(), body));
  return client.read_answer(method != "HEAD");
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace nibble::serve
