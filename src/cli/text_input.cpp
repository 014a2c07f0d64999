#include "cli/text_input.h"

#include "characters/utf8.h"
#include "core/error.h"
#include "io/text_file.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMaxTextBytes = std::int64_t{1} << 32;
constexpr std::int64_t kMaxPromptBytes = 1 << 26;

std::string read_utf8(const std::string& name, std::int64_t max_bytes) {
  std::string text = io::read_named_text(name, max_bytes);
  characters::require_utf8(text, io::shown_text(name));
  return text;
}

}  // namespace

std::string read_text(const std::string& name) {
  std::string text = read_utf8(name, kMaxTextBytes);
  core::require(!text.empty(), core::ErrorKind::kUsage,
                "{} holds no text (a pipe can be read once only)",
                core::lazily([&] { return io::shown_text(name); }));
  return text;
}

std::string read_prompt(const std::string& name) {
  std::string text = read_utf8(name, kMaxPromptBytes);
  if (text.ends_with('\n')) {
    text.pop_back();
    if (text.ends_with('\r')) {
      text.pop_back();
    }
  }
  return text;
}

void require_utf8_words(const std::string& text, const char* option) {
  try {
    characters::require_utf8(text, option);
  } catch (const core::Error& error) {
    throw core::Error(core::ErrorKind::kUsage, error.what());
  }
}

std::vector<compress::CalibrationText> read_calibration_texts(
    const std::vector<std::string>& names) {
  std::vector<compress::CalibrationText> texts;
  for (const std::string& name : names) {
    texts.push_back(std::make_shared<const std::string>(read_text(name)));
  }
  return texts;
}

}  // namespace nibble::cli
