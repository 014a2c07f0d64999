#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "core/error.h"

namespace nibble::hub {
namespace {

constexpr std::size_t kSha1Digits = 40;
constexpr std::size_t kSha256Digits = 64;

void check(int result) {
  core::require(result == 1, core::ErrorKind::kFailed, "OpenSSL cannot compute a checksum");
}

}  // namespace

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
  bool of_git = false;
  std::int64_t size = 0;
};

bool Digest::is_checksum(std::string_view text) {
  return (text.size() == kSha1Digits || text.size() == kSha256Digits) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Digest::Digest(std::string_view expected, std::int64_t size) : state_(std::make_unique<State>()) {
  core::require(is_checksum(expected), core::ErrorKind::kIntegrity,
                "'{}' is no checksum of the hub's", core::printable(expected));
  state_->of_git = expected.size() == kSha1Digits;
  state_->size = size;
  reset();
}

Digest::~Digest() = default;

void Digest::reset() {
  EVP_MD_CTX* context = state_->context.get();
  check(EVP_DigestInit_ex(context, state_->of_git ? EVP_sha1() : EVP_sha256(), nullptr));
  if (state_->of_git) {
    const std::string head = fmt::format("blob {}", state_->size);
    check(EVP_DigestUpdate(context, head.c_str(), head.size() + 1));  // with its zero
  }
}

void Digest::add(std::string_view bytes) {
  check(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()));
}

std::string Digest::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  check(EVP_DigestFinal_ex(state_->context.get(), bytes, &count));
  std::string text;
  for (unsigned int i = 0; i < count; ++i) {
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

}  // namespace nibble::hub
