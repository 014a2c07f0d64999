#pragma once

#include <chrono>
#include <cstddef>

namespace nibble::serve {

/// What a client may ask of the server's memory and patience. Whatever goes beyond is answered
/// with the status that is named, and the connection closed.
struct HttpLimits {
  std::size_t target_bytes = 8 << 10;      // of the request line: 414
  std::size_t head_bytes = 16 << 10;       // of request line and headers: 431
  std::size_t headers = 100;               // 431
  std::size_t body_bytes = 8 << 20;        // 413
  std::size_t wire_bytes = 12 << 20;       // of a message with what frames its body: 413
  std::size_t chunk_head_bytes = 4 << 10;  // of a chunk's size line, or of the trailers: 400
  std::size_t bodies_bytes = 256 << 20;    // of all bodies that arrive or wait to be worked on: 503
  std::size_t client_bytes = 64 << 20;     // the same of one client: 429
  std::size_t stream_bytes = 1 << 20;      // that a stream's client has not taken: cut off
  std::size_t unwritten_bytes = 256 << 20;  // that is kept for answers: the slowest are cut off
  std::size_t connections = 1024;           // the longest idle one is closed; else 503

  std::chrono::milliseconds idle_time{75'000};  // between messages: closed
  std::chrono::milliseconds head_time{10'000};  // from the first byte: 408
  std::chrono::milliseconds body_time{60'000};  // 408
  std::chrono::milliseconds pace_time{30'000};  // in which a client that is waited for must take
  std::size_t pace_bytes = 64 << 10;            // so many bytes, or is cut off
  std::chrono::milliseconds heartbeat_time{
      15'000};  // of a silent stream, and of a client that sends no more
  std::chrono::milliseconds linger_time{2'000};  // reading on before a refused client is closed
};

}  // namespace nibble::serve
