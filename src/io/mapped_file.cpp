#include "io/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "io/mapping_registry.h"

namespace nibble::io {
namespace {

int advice_of(Access access) {
  switch (access) {
    case Access::kSequential:
      return MADV_SEQUENTIAL;
    case Access::kRandom:
      return MADV_RANDOM;
    case Access::kWillNeed:
      return MADV_WILLNEED;
    case Access::kDontNeed:
      return MADV_DONTNEED;
    case Access::kHugePages:
      return MADV_HUGEPAGE;
    case Access::kNormal:
      break;
  }
  return MADV_NORMAL;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  return std::shared_ptr<const MappedFile>(new MappedFile(path, open_regular_file(path)));
}

MappedFile::MappedFile(std::filesystem::path path, OpenFile file)
    : path_(std::move(path)),
      descriptor_(std::move(file.descriptor)),
      opened_(state_of(descriptor_, path_)) {
  if (file.size == 0) {
    return;  // mmap refuses length 0
  }
  const auto size = static_cast<std::size_t>(file.size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor_.get(), 0);
  if (memory == MAP_FAILED) {
    fail_with_errno("map", path_, errno);
  }
  bytes_ = {static_cast<const std::byte*>(memory), size};
  region_ = register_mapping(memory, size);
}

MappedFile::~MappedFile() {
  if (region_ != nullptr) {
    unregister_mapping(region_);
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

void MappedFile::advise(Access access) const {
  advise(access, 0, static_cast<std::int64_t>(bytes_.size()));
}

void MappedFile::advise(Access access, std::int64_t offset, std::int64_t length) const {
  const auto size = static_cast<std::int64_t>(bytes_.size());
  if (offset < 0 || length <= 0 || offset >= size) {
    return;
  }
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t begin = offset / page * page;
  const std::int64_t end = offset + std::min(length, size - offset);
  void* at = const_cast<std::byte*>(bytes_.data()) + begin;
  ::madvise(at, static_cast<std::size_t>(end - begin), advice_of(access));  // a hint: may fail
}

void MappedFile::check_intact() const {
  struct stat status = {};
  const bool shorter = ::fstat(descriptor_.get(), &status) == 0 &&
                       static_cast<std::size_t>(status.st_size) < bytes_.size();
  const bool damaged = region_ != nullptr && region_->damaged.load();
  core::require(
      !shorter && !damaged, core::ErrorKind::kIo,
      "'{}' lost bytes while it was being read (it had {}); restore the file and try again",
      shown(path_), bytes_.size());
}

void MappedFile::check_unchanged() const {
  core::require(state_of(descriptor_, path_) == opened_ && state_of(path_) == opened_,
                core::ErrorKind::kIntegrity,
                "'{}' has changed since it was opened; try again when nobody writes to it",
                shown(path_));
}

}  // namespace nibble::io
