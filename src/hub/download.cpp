#include "hub/download.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "hub/digest.h"
#include "io/durable.h"
#include "io/file_descriptor.h"

namespace nibble::hub {
namespace {

namespace fs = std::filesystem;

constexpr auto kFirstWait = std::chrono::milliseconds(250);
constexpr std::size_t kReadBytes = 1 << 20;
constexpr mode_t kMode = 0666;

io::FileDescriptor open_or_create(const fs::path& path, int flags) {
  io::FileDescriptor file(::open(path.c_str(), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode));
  if (!file.is_open()) {
    io::fail_with_errno("write", path, errno);
  }
  return file;
}

// Held until the descriptor is closed. On file systems without locks nobody waits.
io::FileDescriptor locked(const fs::path& path) {
  io::FileDescriptor file = open_or_create(path, O_RDWR);
  while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return file;
}

// The file that grows, and the checksum of what is in it.
class Partial {
 public:
  Partial(fs::path path, const RemoteFile& file)
      : path_(std::move(path)),
        file_(file),
        digest_(file.checksum, file.size),
        descriptor_(open_or_create(path_, O_RDWR)) {
    read_what_is_there();
  }

  std::int64_t size() const { return size_; }

  void put(std::int64_t position, std::string_view bytes) {
    if (position == 0 && size_ > 0) {  // the server knows no ranges
      restart();
    }
    core::require(
        position == size_ && static_cast<std::int64_t>(bytes.size()) <= file_.size - size_,
        core::ErrorKind::kIo, "{}: the server sends more bytes than the hub says",
        core::printable(file_.name));
    digest_.add(bytes);
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) {
        fail_to_write(errno);
      }
      const std::size_t done = count < 0 ? 0 : static_cast<std::size_t>(count);
      size_ += static_cast<std::int64_t>(done);
      bytes.remove_prefix(done);
    }
  }

  // Gives it its name, if it is what the hub promised.
  void finish(const fs::path& target) {
    const std::string found = digest_.finish();
    if (found != file_.checksum) {
      ::unlink(path_.c_str());
      core::fail(core::ErrorKind::kIntegrity,
                 "{}: the bytes that came have another checksum than the hub says ({}..., not "
                 "{}...); they are removed: try again",
                 core::printable(file_.name), found.substr(0, 12), file_.checksum.substr(0, 12));
    }
    if (::fsync(descriptor_.get()) != 0 || ::rename(path_.c_str(), target.c_str()) != 0) {
      io::fail_with_errno("write", target, errno);
    }
    io::sync_folder(io::folder_of(target));
  }

 private:
  void read_what_is_there() {
    struct stat status = {};
    if (::fstat(descriptor_.get(), &status) != 0) {
      fail_to_write(errno);
    }
    if (status.st_size > file_.size) {
      restart();
      return;
    }
    std::vector<char> buffer(kReadBytes);
    ssize_t count = 0;
    while ((count = ::read(descriptor_.get(), buffer.data(), buffer.size())) > 0) {
      digest_.add({buffer.data(), static_cast<std::size_t>(count)});
      size_ += count;
    }
    if (count < 0) {
      io::fail_with_errno("read", path_, errno);
    }
  }

  void restart() {
    if (::ftruncate(descriptor_.get(), 0) != 0 || ::lseek(descriptor_.get(), 0, SEEK_SET) != 0) {
      fail_to_write(errno);
    }
    digest_.reset();
    size_ = 0;
  }

  [[noreturn]] void fail_to_write(int error) const { io::fail_with_errno("write", path_, error); }

  fs::path path_;
  const RemoteFile& file_;
  Digest digest_;
  io::FileDescriptor descriptor_;
  std::int64_t size_ = 0;
};

std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  return url.substr(begin, url.find('/', begin) - begin);
}

}  // namespace

bool may_try_again(const Response& response) {
  return response.status == 0 || response.status == 429 || response.status >= 500 ||
         !response.error.empty();
}

void wait_before_try(int tries) {
  std::this_thread::sleep_for(kFirstWait * (1 << std::min(tries, 6)));
}

void refuse_response(const Response& response, const std::string& url, const std::string& what) {
  constexpr auto kKind = core::ErrorKind::kIo;
  const std::string_view code = response.header("x-error-code");
  const std::string host = core::printable(host_of(url)).str();
  if (response.status == 0 || !response.error.empty()) {
    core::fail(kKind, "cannot fetch {} from {}: {}; what came is kept: try again", what, host,
               response.error);
  }
  if (code == "GatedRepo") {
    core::fail(
        kKind,
        "{} is gated: ask for access on its page at {}, then set HF_TOKEN to a token of yours",
        what, host);
  }
  if (code == "RevisionNotFound") {
    core::fail(kKind, "{}: {} has no such revision", what, host);
  }
  if (response.status == 401 || code == "RepoNotFound" || response.status == 404) {
    core::fail(
        kKind,
        "{} has no {}, or it is private: check the name, or set HF_TOKEN to a token that may "
        "read it (status {})",
        host, what, response.status);
  }
  if (response.status == 403) {
    core::fail(kKind, "{} does not let you read {}: HF_TOKEN has no right to it (status 403)", host,
               what);
  }
  core::fail(kKind, "cannot fetch {} from {}: status {}; try again later", what, host,
             response.status);
}

void download(HttpClient& http, const RemoteFile& file, const fs::path& target,
              const fs::path& lock, const std::function<void(std::int64_t bytes)>& progress) {
  const io::FileDescriptor held = locked(lock);
  if (fs::exists(target)) {  // another process brought it
    progress(file.size);
    return;
  }
  Partial partial(fs::path(target) += ".incomplete", file);
  int tries = 0;
  while (partial.size() < file.size) {
    const std::int64_t before = partial.size();
    const Response response =
        http.download(file.url, before, [&](std::int64_t position, std::string_view bytes) {
          partial.put(position, bytes);
          progress(partial.size());
        });
    if (partial.size() == file.size) {
      break;
    }
    const bool good = response.status == 200 || response.status == 206;
    tries = partial.size() > before ? 0 : tries + 1;
    if ((!good && !may_try_again(response)) || tries >= kMaxTries) {
      Response last = response;
      last.error =
          good && last.error.empty() ? "the server sent less than it promised" : last.error;
      refuse_response(last, file.url, file.name);
    }
    wait_before_try(tries);
  }
  progress(partial.size());
  partial.finish(target);
}

}  // namespace nibble::hub
