#include "cli/resume_notice.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/shell_words.h"
#include "cli/terminal_width.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kResume = "--resume";

std::string notice;  // read by the handler, and changed only while it is not installed

// The words that started this process; none where the system does not tell.
std::vector<std::string> words_of_this_call() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) {
    words.push_back(word);
  }
  return words;
}

// Calls only what a handler of signals may call (signal-safety(7)).
void say_and_end(int signal) {
  write_note_from_handler(notice);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// A signal that this process was started to ignore (nohup, a background job) stays ignored.
void install(int signal, struct sigaction& before) {
  struct sigaction action = {};
  action.sa_handler = say_and_end;
  sigemptyset(&action.sa_mask);
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

std::string resume_command(std::span<const std::string> words) {
  std::vector<std::string> command(words.begin(), words.end());
  if (std::find(words.begin(), words.end(), kResume) == words.end()) {
    command.emplace_back(kResume);
  }
  return shell_command(command);
}

ResumeNotice::ResumeNotice() {
  const bool terminal = terminal_columns(STDERR_FILENO).has_value();
  const std::vector<std::string> words = words_of_this_call();
  notice = fmt::format("{}nibble: interrupted; {}\n", terminal ? "\r\033[K" : "",
                       words.empty() ? "the same call with --resume goes on"
                                     : "go on with: " + resume_command(words));
  install(SIGINT, interrupt_);
  install(SIGTERM, terminate_);
}

ResumeNotice::~ResumeNotice() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

}  // namespace nibble::cli
