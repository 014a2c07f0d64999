#include "io/gguf_writer.h"

#include <cstdint>
#include <cstring>
#include <set>
#include <type_traits>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/gguf_types.h"

namespace nibble::io {
namespace {

using core::ErrorKind;

constexpr std::uint32_t kVersion = 3;
constexpr std::int64_t kAlignment = 32;
constexpr std::string_view kFirstKey = "general.architecture";

template <typename T>
struct Element {
  using Type = void;
};
template <typename T>
struct Element<std::vector<T>> {
  using Type = T;
};

class Head {
 public:
  template <typename T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void string(std::string_view text) {
    number<std::uint64_t>(text.size());
    text_ += text;
  }
  void raw(std::string_view text) { text_ += text; }

  void key(std::string_view name, const GgufValue& value) {
    string(name);
    std::visit([&](const auto& stored) { any(stored); }, value.storage());
  }

  const std::string& text() const { return text_; }

 private:
  template <typename T>
  void single(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      string(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      number<std::uint8_t>(value ? 1 : 0);
    } else {
      number(value);
    }
  }

  template <typename T>
  void any(const T& value) {
    using E = typename Element<T>::Type;
    if constexpr (std::is_void_v<E>) {
      number(gguf_type<T>());
      single(value);
    } else {
      number(gguf_type<GgufArray>());
      number(gguf_type<E>());
      number<std::uint64_t>(value.size());
      for (const auto& element : value) {
        single<E>(element);
      }
    }
  }

  std::string text_;
};

std::int64_t padding(std::int64_t bytes) {
  return (kAlignment - bytes % kAlignment) % kAlignment;
}

std::int64_t bytes_of(const GgufOutput& tensor) {
  const std::int64_t row = tensor.shape.back();
  core::require(row % tensor.type->block_elements == 0, ErrorKind::kFailed,
                "rows of {} in '{}' are no whole blocks of {}", row, core::printable(tensor.name),
                tensor.type->name);
  return core::element_count(tensor.shape) / tensor.type->block_elements * tensor.type->block_bytes;
}

void put_keys(Head& head, const GgufKeys& keys) {
  if (const auto first = keys.find(kFirstKey); first != keys.end()) {
    head.key(first->first, first->second);
  }
  for (const auto& [name, value] : keys) {
    if (name != kFirstKey) {
      head.key(name, value);
    }
  }
}

std::string head_of(const GgufKeys& keys, const std::vector<GgufOutput>& tensors) {
  Head head;
  head.raw("GGUF");
  head.number(kVersion);
  head.number<std::uint64_t>(tensors.size());
  head.number<std::uint64_t>(keys.size());
  put_keys(head, keys);
  std::set<std::string_view> seen;
  std::int64_t offset = 0;
  for (const GgufOutput& tensor : tensors) {
    core::require(seen.insert(tensor.name).second, ErrorKind::kFailed, "tensor '{}' stands twice",
                  core::printable(tensor.name));
    head.string(tensor.name);
    head.number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) {
      head.number(static_cast<std::uint64_t>(*extent));
    }
    head.number(tensor.type->id);
    head.number(static_cast<std::uint64_t>(offset));
    const std::int64_t bytes = bytes_of(tensor);
    offset += bytes + padding(bytes);
  }
  return head.text();
}

void pad(AtomicFile& file) {
  file.write(std::string(static_cast<std::size_t>(padding(file.written())), '\0'));
}

}  // namespace

void write_gguf(const std::filesystem::path& path, const GgufKeys& keys,
                const std::vector<GgufOutput>& tensors) {
  std::error_code error;
  core::require(!std::filesystem::exists(path, error), ErrorKind::kIo,
                "cannot write '{}': it exists already; remove it or choose another name",
                shown(path));
  const std::string head = head_of(keys, tensors);
  AtomicFile file(path);
  file.write(head);
  pad(file);
  for (const GgufOutput& tensor : tensors) {
    const std::vector<std::byte> bytes = tensor.bytes();
    core::require(std::ssize(bytes) == bytes_of(tensor), ErrorKind::kFailed,
                  "'{}' has {} bytes, expected {}", core::printable(tensor.name), bytes.size(),
                  bytes_of(tensor));
    file.write(bytes);
    pad(file);
  }
  file.commit();
}

}  // namespace nibble::io
