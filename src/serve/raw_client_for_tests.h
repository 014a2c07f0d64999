#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::serve {

/// A socket of a client that says whatever a test wants it to say.
class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0);
  ~RawClient() { close(); }
  RawClient(RawClient&& other) noexcept : socket_(other.socket_), left_(std::move(other.left_)) {
    other.socket_ = -1;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  RawClient& operator=(RawClient&&) = delete;

  /// False when the server has closed the connection.
  bool send(std::string_view bytes);
  void close_writing();
  void close();
  void reset();  // close() that the other side sees as an error

  /// What arrives until the server closes, or until nothing comes for ten seconds ("...TIMEOUT").
  std::string read_all();
  /// Takes up to so many bytes that arrive within ten seconds; their number.
  std::size_t read_some(std::size_t bytes);
  /// What arrives until `text` is there, with it; and what was read beyond it stays for later.
  std::string read_until(std::string_view text);
  /// One answer with Content-Length, or in chunks (put together).
  struct Answer {
    int status = 0;
    std::string head;
    std::string body;
    std::string header(std::string_view name) const;
  };
  Answer read_answer(bool has_body = true);
  /// Whether the server closes the connection.
  bool closed() { return read_all().find("TIMEOUT") == std::string::npos; }

 private:
  bool receive();

  int socket_ = -1;
  std::string left_;
};

/// One request on a connection of its own.
RawClient::Answer ask(int port, std::string_view method, std::string_view path,
                      std::string_view body = "", std::string_view headers = "");

/// Resident memory of this process in bytes.
std::size_t resident_bytes();

}  // namespace nibble::serve
