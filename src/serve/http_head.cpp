#include "serve/http_head.h"

#include <algorithm>

namespace nibble::serve {
namespace {

constexpr std::string_view kScheme = "http://";

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Exactly one plain number: equal ones that stand twice, or as a list, are read differently
// elsewhere.
std::optional<HttpRefusal> check_length(const HttpRequest& request) {
  const std::string* length = request.find("content-length");
  if (length != nullptr && (request.count("content-length") > 1 || length->empty() ||
                            !std::all_of(length->begin(), length->end(), is_digit))) {
    return HttpRefusal{400, "Content-Length must be one number, and stand once"};
  }
  return std::nullopt;
}

std::optional<HttpRefusal> check_framing(const HttpRequest& request) {
  if (auto refusal = check_length(request)) {
    return refusal;
  }
  const std::size_t encodings = request.count("transfer-encoding");
  if (encodings == 0) {
    return std::nullopt;
  }
  if (encodings > 1 || !same_name(*request.find("transfer-encoding"), "chunked")) {
    return HttpRefusal{400, "the only Transfer-Encoding that is known is chunked"};
  }
  if (request.count("content-length") != 0) {
    return HttpRefusal{400, "Content-Length and Transfer-Encoding stand together"};
  }
  if (request.version != "1.1") {
    return HttpRefusal{400, "Transfer-Encoding needs HTTP/1.1"};
  }
  return std::nullopt;
}

// Cuts a target into host (of an absolute URL) and path.
std::optional<HttpRefusal> split_target(HttpRequest& request, std::string_view& authority) {
  std::string_view target = request.target;
  if (target == "*" && request.method == "OPTIONS") {
    request.path.assign(1, '*');
    return std::nullopt;
  }
  if (target.size() > kScheme.size() && same_name(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(kScheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    authority = target.substr(0, end);
    target.remove_prefix(end);
    request.path.assign(target.empty() || target.front() == '?' ? 1 : 0, '/');
  } else if (target.empty() || target.front() != '/') {
    return HttpRefusal{400, "the target of the request is no path"};
  }
  request.path += target.substr(0, target.find('?'));
  return std::nullopt;
}

}  // namespace

bool HeadScanner::check_byte(char byte, char before) {
  const auto value = static_cast<unsigned char>(byte);
  if ((byte == '\n') != (before == '\r')) {
    refuse(400, "lines of the head must end with CR LF");
  } else if ((value < 0x20 && byte != '\r' && byte != '\n' && byte != '\t') || value == 0x7f) {
    refuse(400, "control character in the head");
  } else if (at_ == line_begin_ && lines_ > 0 && (byte == ' ' || byte == '\t')) {
    refuse(400, "folded header lines are not supported");
  }
  return !refusal_;
}

bool HeadScanner::check_limits() {
  if (lines_ == 0 && at_ > limits_->target_bytes) {
    refuse(414, "the request line is too long");
  } else if (at_ > limits_->head_bytes) {
    refuse(431, "the headers are too long");
  } else if (lines_ > limits_->headers + 1) {
    refuse(431, "there are too many headers");
  }
  return !refusal_;
}

std::optional<std::size_t> HeadScanner::scan(std::string_view bytes) {
  for (; at_ < bytes.size() && !refusal_; ++at_) {
    const char byte = bytes[at_];
    if (!check_byte(byte, at_ == 0 ? '\0' : bytes[at_ - 1]) || !check_limits()) {
      return std::nullopt;
    }
    if (byte != '\n') {
      continue;
    }
    if (at_ == line_begin_ + 1 && lines_ > 0) {
      return at_ + 1;
    }
    ++lines_;
    line_begin_ = at_ + 1;
  }
  return std::nullopt;
}

std::optional<std::string> host_name(std::string_view host) {
  std::string name;
  std::transform(host.begin(), host.end(), std::back_inserter(name), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const bool bracketed = !name.empty() && name.front() == '[';
  const std::size_t closing = bracketed ? name.find(']') : 0;
  if (closing == std::string::npos) {
    return std::nullopt;
  }
  const std::size_t colon = name.find(':', closing);
  const std::string port = colon == std::string::npos ? "" : name.substr(colon + 1);
  name.resize(std::min(colon, name.size()));
  const bool valid_port = port.size() <= 5 && std::all_of(port.begin(), port.end(), is_digit);
  const bool valid_name =
      bracketed ? closing + 1 == name.size() &&
                      name.find_first_not_of("0123456789abcdef:.%[]") == std::string::npos
                : !name.empty() && std::all_of(name.begin(), name.end(), is_host_character);
  if (!valid_port || !valid_name) {
    return std::nullopt;
  }
  return name;
}

std::optional<HttpRefusal> check_head(HttpRequest& request, const std::vector<std::string>& hosts) {
  if (auto refusal = check_framing(request)) {
    return refusal;
  }
  std::string_view authority;
  if (auto refusal = split_target(request, authority)) {
    return refusal;
  }
  const std::size_t count = request.count("host");
  if (count > 1 || (count == 0 && request.version == "1.1")) {
    return HttpRefusal{400, "the header Host must be there once"};
  }
  for (const std::string_view host :
       {count == 1 ? std::string_view(*request.find("host")) : std::string_view(), authority}) {
    if (host.empty()) {
      continue;
    }
    const auto name = host_name(host);
    if (!name) {
      return HttpRefusal{400, "the host of the request is malformed"};
    }
    if (!hosts.empty() && std::find(hosts.begin(), hosts.end(), *name) == hosts.end()) {
      return HttpRefusal{403, "this server answers only to the names of this machine"};
    }
  }
  if (!hosts.empty() && count == 1 && request.find("host")->empty() && authority.empty()) {
    return HttpRefusal{403, "this server answers only to the names of this machine"};
  }
  return std::nullopt;
}

}  // namespace nibble::serve
