#include "serve/page.h"

#include <string>

namespace nibble::serve {

// Made of src/serve/page by cmake/embed_file.cmake.
extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageScript;

namespace {

// Nothing from elsewhere, and no page of another site around it.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

HttpResponse part(std::string_view type, std::string_view bytes) {
  return {200,
          {{"Content-Type", std::string(type) + "; charset=utf-8"},
           {"Content-Security-Policy", std::string(kPolicy)},
           {"X-Content-Type-Options", "nosniff"},
           {"Referrer-Policy", "no-referrer"},
           {"Cache-Control", "no-cache"}},
          std::string(bytes)};
}

}  // namespace

std::optional<HttpResponse> page_of(std::string_view path) {
  if (path == "/") {
    return part("text/html", kPageHtml);
  }
  if (path == "/page.css") {
    return part("text/css", kPageCss);
  }
  if (path == "/page.js") {
    return part("text/javascript", kPageScript);
  }
  return std::nullopt;
}

}  // namespace nibble::serve
