#include "load_test/http_client.h"

#include <map>

#include <curl/curl.h>

#include "core/error.h"

namespace nibble::load_test {
namespace {

constexpr long kConnectSeconds = 10;

using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

}  // namespace

struct HttpClient::Running {
  Transfer transfer;
  bool stopped = false;  // by on_bytes
  std::unique_ptr<CURL, void (*)(CURL*)> handle{nullptr, curl_easy_cleanup};
};

struct HttpClient::Impl {
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi{curl_multi_init(), curl_multi_cleanup};
  Headers headers{nullptr, curl_slist_free_all};
  std::map<CURL*, std::unique_ptr<Running>> running;

  void add_header(const std::string& line) {
    headers.reset(curl_slist_append(headers.release(), line.c_str()));
  }

  static std::size_t on_write(char* data, std::size_t, std::size_t count, void* user) {
    auto& running = *static_cast<Running*>(user);
    if (running.transfer.on_bytes && !running.transfer.on_bytes({data, count})) {
      running.stopped = true;
      return CURL_WRITEFUNC_ERROR;
    }
    return count;
  }

  void end(CURL* handle, CURLcode code) {
    const auto at = running.find(handle);
    const std::unique_ptr<Running> ended = std::move(at->second);
    running.erase(at);
    TransferResult result;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &result.status);
    if (code != CURLE_OK && !ended->stopped) {
      result.error = curl_easy_strerror(code);
    }
    curl_multi_remove_handle(multi.get(), handle);
    if (ended->transfer.on_end) {
      ended->transfer.on_end(result);
    }
  }
};

HttpClient::HttpClient(const std::string& api_key) : impl_(std::make_unique<Impl>()) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  core::require(ready == CURLE_OK && impl_->multi != nullptr, core::ErrorKind::kFailed,
                "libcurl cannot be used");
  impl_->add_header("Content-Type: application/json");
  impl_->add_header("Expect:");
  if (!api_key.empty()) {
    impl_->add_header("Authorization: Bearer " + api_key);
  }
}

HttpClient::~HttpClient() {
  for (const auto& [handle, running] : impl_->running) {
    curl_multi_remove_handle(impl_->multi.get(), handle);
  }
}

void HttpClient::start(Transfer transfer) {
  auto running = std::make_unique<Running>();
  running->transfer = std::move(transfer);
  CURL* const handle = curl_easy_init();
  core::require(handle != nullptr, core::ErrorKind::kOutOfMemory, "libcurl is out of memory");
  running->handle.reset(handle);
  curl_easy_setopt(handle, CURLOPT_URL, running->transfer.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, impl_->headers.get());
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Impl::on_write);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, running.get());
  if (!running->transfer.body.empty()) {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, running->transfer.body.data());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(running->transfer.body.size()));
  }
  impl_->running.emplace(handle, std::move(running));
  curl_multi_add_handle(impl_->multi.get(), handle);
}

std::size_t HttpClient::running() const {
  return impl_->running.size();
}

void HttpClient::poll(double seconds) {
  int active = 0;
  curl_multi_perform(impl_->multi.get(), &active);
  if (active > 0 || impl_->running.empty()) {
    curl_multi_poll(impl_->multi.get(), nullptr, 0, static_cast<int>(seconds * 1000), nullptr);
    curl_multi_perform(impl_->multi.get(), &active);
  }
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(impl_->multi.get(), &left)) {
    if (message->msg == CURLMSG_DONE) {
      impl_->end(message->easy_handle, message->data.result);
    }
  }
}

std::string HttpClient::fetch(const std::string& url, const std::string& body) {
  std::string answer;
  TransferResult result;
  bool ended = false;
  start({url, body,
         [&](std::string_view bytes) {
           answer += bytes;
           return true;
         },
         [&](const TransferResult& end) {
           result = end;
           ended = true;
         }});
  while (!ended) {
    poll(1);
  }
  core::require(result.error.empty(), core::ErrorKind::kFailed, "{}: {}", url, result.error);
  core::require(result.status == 200, core::ErrorKind::kFailed, "{}: status {}: {}", url,
                result.status, core::printable(answer, 300));
  return answer;
}

}  // namespace nibble::load_test
