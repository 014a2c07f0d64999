#include "serve/page.h"

#include <string>

namespace nibble::serve {

// Made of src/serve/page by cmake/embed_file.cmake.
extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageScript;
extern const std::string_view kPageMarkdown;
extern const std::string_view kPageMarkdownInline;
extern const std::string_view kPagePanel;

namespace {

// Nothing from elsewhere, no page of another site around it, and no text that a script turns to
// HTML.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";
constexpr std::string_view kScript = "text/javascript";

struct Part {
  std::string_view path;
  std::string_view type;
  const std::string_view& bytes;
};

const Part kParts[] = {{"/", "text/html", kPageHtml},
                       {"/page.css", "text/css", kPageCss},
                       {"/page.js", kScript, kPageScript},
                       {"/markdown.js", kScript, kPageMarkdown},
                       {"/markdown-inline.js", kScript, kPageMarkdownInline},
                       {"/panel.js", kScript, kPagePanel}};

HttpResponse answer(std::string_view type, std::string_view bytes) {
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
  for (const Part& part : kParts) {
    if (path == part.path) {
      return answer(part.type, part.bytes);
    }
  }
  return std::nullopt;
}

}  // namespace nibble::serve
