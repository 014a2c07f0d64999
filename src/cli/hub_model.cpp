#include "cli/hub_model.h"

#include <filesystem>

#include "cli/terminal_progress.h"
#include "core/error.h"
#include "hub/cache.h"
#include "hub/pull.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kPrefix = "hf:";

std::string place_on_hub(const hub::Repository& repository, bool quiet) {
  const hub::Settings settings = hub::settings_from_environment();
  if (const auto snapshot = hub::find_snapshot(settings.cache, repository)) {
    return snapshot->string();
  }
  TerminalProgress progress(quiet);
  return hub::pull(repository, settings, {}, progress).snapshot.string();
}

}  // namespace

std::string model_place(const std::string& said, bool quiet) {
  if (said.starts_with(kPrefix)) {
    return place_on_hub(hub::parse_repository(said.substr(kPrefix.size())), quiet);
  }
  std::error_code error;
  const bool on_hub = said.find('/') != std::string::npos && hub::is_repository_name(said);
  if (!on_hub || std::filesystem::exists(said, error)) {
    return said;
  }
  const auto snapshot =
      hub::find_snapshot(hub::settings_from_environment().cache, hub::parse_repository(said));
  core::require(snapshot.has_value(), core::ErrorKind::kIo,
                "there is no model at {}, and none of that name (or not all of it) in the hub's "
                "cache; nibble pull {} fetches it",
                said, said);
  return snapshot->string();
}

}  // namespace nibble::cli
