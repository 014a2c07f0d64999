#pragma once

#include <csignal>
#include <span>
#include <string>
#include <vector>

namespace nibble::cli {

/// While it lives, SIGINT and SIGTERM still end the program, but say on stderr how to go on: the
/// words of this call, with --resume. One at a time.
class ResumeNotice {
 public:
  ResumeNotice();
  ~ResumeNotice();
  ResumeNotice(const ResumeNotice&) = delete;
  ResumeNotice& operator=(const ResumeNotice&) = delete;

 private:
  struct sigaction interrupt_ = {};  // as they were
  struct sigaction terminate_ = {};
};

/// `words` with --resume, as a shell reads them: "nibble quantize 'my model' --resume".
std::string resume_command(std::span<const std::string> words);

}  // namespace nibble::cli
