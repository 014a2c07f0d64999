#include <csignal>
#include <new>

#include <fmt/format.h>

#include "cli/call.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/memory_reserve.h"
#include "io/mapped_file.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kMaxMessageBytes = 380;  // of a line of 400

// One line on stderr, whatever the message holds.
int report(core::ErrorKind kind, std::string_view message) {
  print_note("nibble: error: {}\n", core::printable(message, kMaxMessageBytes));
  return static_cast<int>(kind);
}

int run_program(int argc, char** argv) {
  const auto all = commands();
  Call call(all);
  if (Command* chosen = call.parse(argc, argv)) {
    chosen->start();
  }
  return 0;
}

int guarded(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const OutputClosed&) {
    end_by_closed_output();
  } catch (const EndedInSilence& ended) {
    let_another_rank_speak();
    return static_cast<int>(ended.kind());
  } catch (const core::Error& error) {
    if (is_said_by_first_rank(error)) {
      let_another_rank_speak();
      return static_cast<int>(error.kind());
    }
    return report(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return report(core::ErrorKind::kOutOfMemory,
                  "out of memory; use a smaller model, context or batch");
  } catch (const std::filesystem::filesystem_error& error) {
    return report(error.code() == std::errc::not_enough_memory ? core::ErrorKind::kOutOfMemory
                                                               : core::ErrorKind::kIo,
                  error.what());
  } catch (const std::exception& error) {
    return report(core::ErrorKind::kFailed, error.what());
  }
}

}  // namespace
}  // namespace nibble::cli

int main(int argc, char** argv) {
  nibble::cli::prepare_standard_streams();
  nibble::core::keep_memory_reserve();
  std::signal(SIGXFSZ, SIG_IGN);
  nibble::io::install_truncation_guard();
  return nibble::cli::guarded(argc, argv);
}
