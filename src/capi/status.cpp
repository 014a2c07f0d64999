#include "capi/status.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>

#include "core/error.h"
#include "serve/api_error.h"

namespace nibble::capi {
namespace {

constexpr int kFirstServerError = 500;

nibble_status status_of(core::ErrorKind kind) {
  switch (kind) {
    case core::ErrorKind::kUsage:
      return NIBBLE_USAGE;
    case core::ErrorKind::kInvalidModel:
      return NIBBLE_INVALID_MODEL;
    case core::ErrorKind::kOutOfMemory:
      return NIBBLE_OUT_OF_MEMORY;
    case core::ErrorKind::kIo:
      return NIBBLE_IO;
    case core::ErrorKind::kIntegrity:
      return NIBBLE_INTEGRITY;
    case core::ErrorKind::kFailed:
    case core::ErrorKind::kBelowThreshold:
      break;
  }
  return NIBBLE_FAILED;
}

nibble_status say(ErrorText& text, nibble_status status, std::string_view why) {
  text.set(why);
  return status;
}

}  // namespace

void ErrorText::set(std::string_view text) noexcept {
  const std::size_t count = std::min(text.size(), text_.size() - 1);
  std::memcpy(text_.data(), text.data(), count);
  text_[count] = '\0';
}

ErrorText& thread_error() {
  thread_local ErrorText text;
  return text;
}

nibble_status status_of_exception(ErrorText& text) noexcept {
  try {
    throw;
  } catch (const Cancelled&) {
    return say(text, NIBBLE_CANCELLED, "the call was cancelled");
  } catch (const core::Error& error) {
    return say(text, status_of(error.kind()), error.what());
  } catch (const serve::ApiError& error) {
    return say(text, error.status < kFirstServerError ? NIBBLE_USAGE : NIBBLE_FAILED, error.what());
  } catch (const std::bad_alloc&) {
    return say(text, NIBBLE_OUT_OF_MEMORY, "out of memory; use a smaller model, context or batch");
  } catch (const std::filesystem::filesystem_error& error) {
    return say(text, NIBBLE_IO, error.what());
  } catch (const std::exception& error) {
    return say(text, NIBBLE_FAILED, error.what());
  } catch (...) {
    return say(text, NIBBLE_FAILED, "the call failed for a reason that is not known");
  }
}

}  // namespace nibble::capi

extern "C" {

const char* nibble_version(void) {
  return NIBBLE_VERSION;
}

const char* nibble_last_error(void) {
  return nibble::capi::thread_error().text();
}

const char* nibble_status_name(int status) {
  switch (status) {
    case NIBBLE_OK:
      return "ok";
    case NIBBLE_FAILED:
      return "failed";
    case NIBBLE_USAGE:
      return "usage";
    case NIBBLE_INVALID_MODEL:
      return "invalid model";
    case NIBBLE_OUT_OF_MEMORY:
      return "out of memory";
    case NIBBLE_IO:
      return "input/output";
    case NIBBLE_INTEGRITY:
      return "integrity";
    case NIBBLE_CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}
}
