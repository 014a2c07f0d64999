#include "serve/http_output.h"

#include <utility>

#include <fmt/format.h>

namespace nibble::serve {

std::string chunk_of(std::string_view part) {
  return part.empty() ? "" : fmt::format("{:x}\r\n{}\r\n", part.size(), part);
}

void HttpOutput::append(std::shared_ptr<BodySource> source, bool chunked) {
  source_ = std::move(source);
  chunked_ = chunked;
}

void HttpOutput::make_more() {
  std::string part;
  const bool more = source_->append(part);
  pending_ = chunked_ ? chunk_of(part) : std::move(part);
  if (!more) {
    source_.reset();
    pending_ += chunked_ ? kLastChunk : "";
  }
}

std::string_view HttpOutput::front() {
  if (at_ == current_.size()) {
    if (pending_.empty() && source_) {
      make_more();
    }
    current_ = std::exchange(pending_, {});
    at_ = 0;
  }
  return std::string_view(current_).substr(at_);
}

void HttpOutput::take(std::size_t bytes) {
  at_ += bytes;
  taken_ += bytes;
}

void HttpOutput::clear() {
  pending_ = {};
  current_ = {};
  at_ = 0;
  source_.reset();
}

}  // namespace nibble::serve
