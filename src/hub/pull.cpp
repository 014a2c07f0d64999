#include "hub/pull.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "core/error.h"
#include "core/json.h"
#include "core/nearest_name.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/download.h"
#include "hub/file_choice.h"
#include "hub/http.h"
#include "io/file_descriptor.h"

namespace nibble::hub {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;

constexpr std::size_t kMaxListBytes = 64u << 20;
constexpr std::int64_t kStepBytes = 1'000'000;  // of progress
constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 50;

// "abc" of W/"abc".
std::string bare_etag(std::string_view text) {
  if (text.starts_with("W/")) {
    text.remove_prefix(2);
  }
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

class Puller {
 public:
  Puller(const Repository& repository, const Settings& settings, core::ProgressSink& progress)
      : repository_(repository),
        settings_(settings),
        progress_(progress),
        http_(settings.token),
        cached_(settings.cache, repository) {}

  PullResult run(const std::vector<std::string>& asked) {
    read_list();
    result_.files = asked.empty() ? needed_files(names_, repository_.name) : known(asked);
    find_files();
    check_space();
    bring();
    show();
    result_.snapshot = cached_.snapshot(result_.commit);
    for (const std::string& name : result_.files) {
      result_.bytes += static_cast<std::int64_t>(fs::file_size(result_.snapshot / name));
    }
    return std::move(result_);
  }

 private:
  // The commit of the revision and the names of its files.
  void read_list() {
    const std::string url =
        fmt::format("{}/api/models/{}/revision/{}", settings_.endpoint,
                    url_escaped(repository_.name, true), url_escaped(repository_.revision, false));
    std::string body;
    answer(url, repository_.name, [&] { return http_.get(url, kMaxListBytes, body); });
    const core::Json list = core::parse_json(body, "the hub's list of files");
    result_.commit = core::get_string(list, "sha", "the hub's list of files");
    core::require(is_commit(result_.commit), ErrorKind::kInvalidModel,
                  "the hub's list of files has no commit but '{}'",
                  core::printable(result_.commit));
    const auto siblings = list.find("siblings");
    core::require(siblings != list.end() && siblings->is_array(), ErrorKind::kInvalidModel,
                  "the hub's list of files has no siblings");
    for (const core::Json& sibling : *siblings) {
      names_.push_back(core::get_string(sibling, "rfilename", "the hub's list of files"));
      core::require(is_safe_name(names_.back()), ErrorKind::kInvalidModel,
                    "{} has a file with a name that leads out of its folder: '{}'",
                    core::printable(repository_.name), core::printable(names_.back()));
    }
  }

  std::vector<std::string> known(const std::vector<std::string>& asked) const {
    for (const std::string& name : asked) {
      core::require(std::find(names_.begin(), names_.end(), name) != names_.end(),
                    ErrorKind::kUsage, "{} has no file '{}'{}", core::printable(repository_.name),
                    core::printable(name),
                    core::lazily([&] { return core::suggestion(name, names_); }));
    }
    return asked;
  }

  template <typename Ask>
  Response answer(const std::string& url, const std::string& what, Ask ask) {
    for (int tries = 1;; ++tries) {
      const Response response = ask();
      if (response.error.empty() && response.status >= 200 && response.status < 400) {
        return response;
      }
      if (!may_try_again(response) || tries >= kMaxTries) {
        refuse_response(response, url, what);
      }
      wait_before_try(tries);
    }
  }

  // What the hub says of each file that the snapshot does not have.
  void find_files() {
    for (const std::string& name : result_.files) {
      if (!cached_.has(result_.commit, name)) {
        remote_.push_back(find(name));
      }
    }
  }

  RemoteFile find(const std::string& name) {
    RemoteFile file;
    file.name = fmt::format("{} of {}", core::printable(name).str(), repository_.name);
    file.url =
        fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, url_escaped(repository_.name, true),
                    result_.commit, url_escaped(name, true));
    const Response response = answer(file.url, file.name, [&] { return http_.head(file.url); });
    const std::string_view linked = response.header("x-linked-etag");
    file.checksum = bare_etag(linked.empty() ? response.header("etag") : linked);
    core::require(Digest::is_checksum(file.checksum), ErrorKind::kInvalidModel,
                  "the hub says no checksum of {} but '{}'", file.name,
                  core::printable(file.checksum));
    const std::string_view size =
        linked.empty() ? response.header("content-length") : response.header("x-linked-size");
    const auto parsed = std::from_chars(size.data(), size.data() + size.size(), file.size);
    core::require(parsed.ec == std::errc() && file.size >= 0 && file.size <= kMaxFileBytes,
                  ErrorKind::kInvalidModel, "the hub does not say how large {} is", file.name);
    names_of_checksum_[file.checksum].push_back(name);
    return file;
  }

  // Bytes of a file that lie on the disk.
  std::int64_t there(const RemoteFile& file) const {
    std::error_code error;
    const fs::path blob = cached_.blob(file.checksum);
    if (fs::exists(blob, error)) {
      return file.size;
    }
    const auto part = fs::file_size(fs::path(blob) += ".incomplete", error);
    return error ? 0 : std::min(static_cast<std::int64_t>(part), file.size);
  }

  void check_space() {
    create_folders(cached_.blob("x").parent_path());
    for (const RemoteFile& file : remote_) {
      wanted_ += file.size;
      have_ += there(file);
    }
    std::error_code error;
    const fs::space_info space = fs::space(settings_.cache, error);
    const std::int64_t needed = wanted_ - have_;
    core::require(
        error || static_cast<std::uintmax_t>(needed) <= space.available, ErrorKind::kIo,
        "{} needs {:.1f} GB, but {} has {:.1f} GB free; free some, or set HF_HUB_CACHE to "
        "another disk",
        repository_.name, static_cast<double>(needed) / 1e9, io::shown(settings_.cache),
        static_cast<double>(space.available) / 1e9);
  }

  void bring() {
    if (remote_.empty()) {
      return;
    }
    create_folders(cached_.lock("x").parent_path());
    progress_.begin("pull (MB)", std::max<std::int64_t>(1, wanted_ / kStepBytes));
    progress_.skip(have_ / kStepBytes);
    std::int64_t before = 0;
    for (const RemoteFile& file : remote_) {
      const std::int64_t at_first = there(file);
      download(
          http_, file, cached_.blob(file.checksum), cached_.lock(file.checksum),
          [&](std::int64_t bytes) { progress_.update((before + bytes) / kStepBytes, file.name); });
      result_.downloaded += file.size - at_first;
      before += file.size;
    }
    progress_.end();
  }

  // Everything is there: names for it, that of the configuration last.
  void show() {
    std::vector<std::pair<std::string, std::string>> links;
    for (const auto& [checksum, names] : names_of_checksum_) {
      for (const std::string& name : names) {
        links.emplace_back(name, checksum);
      }
    }
    std::stable_partition(links.begin(), links.end(),
                          [](const auto& link) { return link.first != "config.json"; });
    for (const auto& [name, checksum] : links) {
      cached_.link(result_.commit, name, checksum);
    }
    cached_.write_ref(result_.commit);
  }

  const Repository& repository_;
  const Settings& settings_;
  core::ProgressSink& progress_;
  HttpClient http_;
  CachedModel cached_;
  PullResult result_;
  std::vector<std::string> names_;  // of all files of the repository
  std::vector<RemoteFile> remote_;  // that are not in the snapshot
  std::map<std::string, std::vector<std::string>> names_of_checksum_;
  std::int64_t wanted_ = 0;  // bytes of `remote_`
  std::int64_t have_ = 0;    // bytes of `remote_` that lie on the disk
};

}  // namespace

PullResult pull(const Repository& repository, const Settings& settings,
                const std::vector<std::string>& files, core::ProgressSink& progress) {
  core::require(
      !settings.offline, ErrorKind::kUsage,
      "HF_HUB_OFFLINE is set, and {} is not in the hub's cache; unset it to fetch the model",
      repository.name);
  return Puller(repository, settings, progress).run(files);
}

}  // namespace nibble::hub
