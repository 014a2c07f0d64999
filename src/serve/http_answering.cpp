#include <utility>

#include "serve/http_connection.h"

// What HttpConnection writes.
namespace nibble::serve {

namespace net = boost::asio;
using boost::system::error_code;

void HttpConnection::respond(std::uint64_t serial, HttpResponse response) {
  if (!is_current(serial)) {
    return;
  }
  if (phase_ == Phase::kStreaming) {
    end(serial);
    return;
  }
  if (response.source) {
    respond_in_parts(std::move(response));
    return;
  }
  record_.status = response.status;
  const HttpHeader length{"Content-Length", std::to_string(response.body.size())};
  write(head_of(response.status, std::move(response.headers),
                response.status == 204 ? HttpHeader{} : length) +
        (is_head_ || response.status == 204 ? "" : response.body));
  finish_message();
}

// A body whose first part is its last has a length; another is made as the client takes it.
void HttpConnection::respond_in_parts(HttpResponse response) {
  const auto source = std::exchange(response.source, nullptr);
  bool more = false;
  try {
    more = source->append(response.body);
  } catch (const std::exception& error) {
    core_.log({LogLevel::kError,
               "an answer could not be written",
               {{"request", record_.id}, {"reason", error.what()}}});
    response = core_.handler.error(500, "the answer could not be written");
  }
  if (!more) {
    respond(serial_, std::move(response));
    return;
  }
  record_.large = true;
  begin_body(response.status, std::move(response.headers));
  output_.append(chunked_ ? chunk_of(response.body) : response.body);
  output_.append(source, chunked_);
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

// A client of HTTP/1.0 knows no chunks: for it the end of the connection is that of the body.
void HttpConnection::begin_body(int status, HttpHeaders headers) {
  phase_ = Phase::kStreaming;
  record_.status = status;
  chunked_ = version_ == "1.1";
  keep_alive_ = keep_alive_ && chunked_;
  heartbeat_.clear();
  write(head_of(status, std::move(headers),
                chunked_ ? HttpHeader{"Transfer-Encoding", "chunked"} : HttpHeader{}));
}

void HttpConnection::begin_stream(std::uint64_t serial, HttpHeaders headers,
                                  std::string heartbeat) {
  if (!is_current(serial) || phase_ == Phase::kStreaming) {
    return;
  }
  begin_body(200, std::move(headers));
  heartbeat_ = std::move(heartbeat);
  if (eof_) {
    send(serial, heartbeat_);
  }
}

void HttpConnection::send(std::uint64_t serial, std::string_view part) {
  if (!is_current(serial) || phase_ != Phase::kStreaming || part.empty() || output_.has_source()) {
    return;
  }
  write(chunked_ ? chunk_of(part) : std::string(part));
  if (output_.size() > limits().stream_bytes) {
    cut_off("a client does not read its stream; cut off");
  }
}

void HttpConnection::end(std::uint64_t serial) {
  if (!is_current(serial) || phase_ != Phase::kStreaming || output_.has_source()) {
    return;
  }
  if (chunked_) {
    write(kLastChunk);
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
  body_share_.reset();
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
  output_.append(bytes);
  last_write_ = Clock::now();
  if (!writing_) {
    writing_ = true;
    waited_since_ = last_write_;
    taken_at_ = taken_by_client();
    write_some();
  }
}

void HttpConnection::write_some() {
  const std::string_view bytes = output_.front();
  socket_.async_write_some(net::buffer(bytes.data(), bytes.size()),
                           [self = shared_from_this()](error_code error, std::size_t count) {
                             if (self->phase_ == Phase::kClosed) {
                               return;
                             }
                             if (error) {
                               self->disconnect();
                               return;
                             }
                             self->on_written(count);
                           });
}

void HttpConnection::on_written(std::size_t bytes) {
  output_.take(bytes);
  last_write_ = Clock::now();
  const bool had_source = output_.has_source();
  bool more = false;
  try {
    more = !output_.front().empty() || output_.has_source();
  } catch (const std::exception& error) {
    cut_off(error.what());
    return;
  }
  if (more) {
    write_some();
  } else {
    writing_ = false;
  }
  if (had_source && !output_.has_source()) {
    finish_message();
  }
  if (!more) {
    on_drained();
  }
}

void HttpConnection::on_drained() {
  if (phase_ == Phase::kClosing) {
    linger();
  } else if (phase_ == Phase::kIdle) {
    process();
  }
}

}  // namespace nibble::serve
