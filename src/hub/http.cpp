#include "hub/http.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <exception>
#include <optional>

#include <curl/curl.h>
#include <fmt/format.h>

#include "core/error.h"

namespace nibble::hub {
namespace {

constexpr long kConnectSeconds = 20;
constexpr long kStallSeconds = 30;  // without a byte
constexpr int kMaxRedirects = 10;
constexpr std::size_t kMaxHeaders = 200;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Where the bytes of an answer of status 206 begin: "bytes 100-199/200".
std::optional<std::int64_t> begin_of(std::string_view range) {
  constexpr std::string_view kUnit = "bytes ";
  std::int64_t begin = 0;
  if (!range.starts_with(kUnit)) {
    return std::nullopt;
  }
  range.remove_prefix(kUnit.size());
  const auto parsed = std::from_chars(range.data(), range.data() + range.size(), begin);
  return parsed.ec == std::errc() ? std::optional(begin) : std::nullopt;
}

using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

}  // namespace

std::string_view Response::header(std::string_view name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? std::string_view() : at->second;
}

struct HttpClient::Impl {
  std::unique_ptr<CURL, void (*)(CURL*)> handle{curl_easy_init(), curl_easy_cleanup};
  Headers lines{nullptr, curl_slist_free_all};
  Response response;
  const Receiver* receive = nullptr;
  std::int64_t asked = 0;      // where the asked range begins
  std::int64_t position = -1;  // of the next byte; -1: none came yet
  std::exception_ptr thrown;

  static std::size_t on_header(char* data, std::size_t, std::size_t count, void* user) {
    auto& self = *static_cast<Impl*>(user);
    const std::string_view line(data, count);
    const std::size_t colon = line.find(':');
    if (line.starts_with("HTTP/")) {  // of the next answer
      self.response.headers.clear();
    } else if (colon != std::string_view::npos && self.response.headers.size() < kMaxHeaders) {
      self.response.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    }
    return count;
  }

  static std::size_t on_bytes(char* data, std::size_t, std::size_t count, void* user) {
    auto& self = *static_cast<Impl*>(user);
    try {
      self.take({data, count});
      return count;
    } catch (...) {  // must not pass through C
      self.thrown = std::current_exception();
      return CURL_WRITEFUNC_ERROR;
    }
  }

  void take(std::string_view bytes) {
    long status = 0;
    curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
    if (receive == nullptr || (status != 200 && status != 206)) {
      return;
    }
    if (position < 0) {
      const auto begin = status == 206 ? begin_of(response.header("content-range")) : 0;
      core::require(begin.has_value() && (*begin == 0 || *begin == asked), core::ErrorKind::kIo,
                    "the server sends another range of bytes than was asked for");
      position = *begin;
    }
    (*receive)(position, bytes);
    position += static_cast<std::int64_t>(bytes.size());
  }

  void prepare(const std::string& url, bool follow) {
    CURL* curl = handle.get();
    const bool secure = url.starts_with("https://");
    response = {};
    position = -1;
    thrown = nullptr;
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, follow ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(kMaxRedirects));
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "nibble");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines.get());
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  }

  Response perform() {
    const CURLcode code = curl_easy_perform(handle.get());
    curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &response.status);
    if (thrown) {
      std::rethrow_exception(thrown);
    }
    if (code != CURLE_OK) {
      response.error = lower(curl_easy_strerror(code));
    }
    return response;
  }
};

HttpClient::HttpClient(const std::string& token) : impl_(std::make_unique<Impl>()) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  core::require(ready == CURLE_OK && impl_->handle != nullptr, core::ErrorKind::kFailed,
                "libcurl cannot be used");
  if (!token.empty()) {
    impl_->lines.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + token).c_str()));
  }
}

HttpClient::~HttpClient() = default;

Response HttpClient::head(const std::string& url) {
  std::string at = url;
  const std::size_t host = url.find("://") + 3;
  const std::string server = url.substr(0, std::min(url.find('/', host), url.size()));
  for (int redirects = 0;; ++redirects) {
    impl_->prepare(at, false);
    curl_easy_setopt(impl_->handle.get(), CURLOPT_NOBODY, 1L);
    Response response = impl_->perform();
    const std::string_view next = response.header("location");
    const bool here = next.starts_with('/') && !next.starts_with("//");
    if (response.status < 300 || response.status > 399 || !here || redirects == kMaxRedirects) {
      return response;
    }
    at = server + std::string(next);
  }
}

Response HttpClient::get(const std::string& url, std::size_t max_bytes, std::string& body) {
  body.clear();
  const Receiver receive = [&](std::int64_t, std::string_view bytes) {
    core::require(body.size() + bytes.size() <= max_bytes, core::ErrorKind::kFailed,
                  "{}: the answer has more than {} bytes", core::printable(url), max_bytes);
    body += bytes;
  };
  return download(url, 0, receive);
}

Response HttpClient::download(const std::string& url, std::int64_t from, const Receiver& receive) {
  impl_->prepare(url, true);
  impl_->receive = &receive;
  impl_->asked = from;
  const std::string range = fmt::format("{}-", from);
  if (from > 0) {
    curl_easy_setopt(impl_->handle.get(), CURLOPT_RANGE, range.c_str());
  }
  struct Cleared {
    Impl& impl;
    ~Cleared() { impl.receive = nullptr; }
  } cleared{*impl_};
  return impl_->perform();
}

std::string url_escaped(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain = std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain || (c == '/' && keep_slashes)) {
      out += static_cast<char>(c);
    } else {
      out += fmt::format("%{:02X}", c);
    }
  }
  return out;
}

}  // namespace nibble::hub
