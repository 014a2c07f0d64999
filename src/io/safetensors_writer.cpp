#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"

namespace nibble::io {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::size_t kAlignment = 8;

std::vector<const NamedTensor*> data_order(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  bool aligned = true;
  std::int64_t offset = 0;
  for (const NamedTensor& named : tensors) {
    order.push_back(&named);
    aligned = aligned && offset % core::size_of(named.tensor.dtype()) == 0;
    offset += named.tensor.bytes();
  }
  if (!aligned) {  // a tensor's bytes are a multiple of its element size, so this order never is
                   // unaligned
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return core::size_of(a->tensor.dtype()) > core::size_of(b->tensor.dtype());
    });
  }
  return order;
}

std::string quoted(const std::string& text) {
  try {
    return core::Json(text).dump();
  } catch (const core::Json::exception&) {
    core::fail(ErrorKind::kFailed, "'{}' is not valid UTF-8, so it cannot be stored",
               core::printable(text));
  }
}

void check_names(std::span<const NamedTensor> tensors, const std::string& file) {
  std::set<std::string_view> seen;
  for (const NamedTensor& named : tensors) {
    require(named.name != "__metadata__" && seen.insert(named.name).second, ErrorKind::kFailed,
            "cannot write '{}': the tensor name '{}' is reserved or stands twice", file,
            core::printable(named.name));
  }
}

std::string header_of(std::span<const NamedTensor* const> order,
                      const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      json += fmt::format("{}:{},", quoted(key), quoted(value));
    }
    json.back() = '}';
    json += ',';
  }
  std::int64_t offset = 0;
  for (const NamedTensor* named : order) {
    const core::Tensor& tensor = named->tensor;
    const std::string_view type =
        named->stored_as.empty() ? core::name_of(tensor.dtype()) : named->stored_as;
    json += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},",
                        quoted(named->name), type, fmt::join(tensor.shape(), ","), offset,
                        offset + tensor.bytes());
    offset += tensor.bytes();
  }
  if (json.size() > 1) {
    json.pop_back();  // the last comma
  }
  json += '}';
  json.append((kAlignment - json.size() % kAlignment) % kAlignment, ' ');
  return json;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  check_names(tensors, shown(path).str());
  const std::vector<const NamedTensor*> order = data_order(tensors);
  const std::string header = header_of(order, metadata);
  require(static_cast<std::int64_t>(header.size()) <= kMaxSafetensorsHeaderBytes,
          ErrorKind::kFailed,
          "cannot write '{}': its header of {} bytes is larger than the format allows; "
          "write several files",
          shown(path), header.size());
  const auto length = static_cast<std::uint64_t>(header.size());
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const NamedTensor* named : order) {
    const auto bytes = static_cast<std::size_t>(named->tensor.bytes());
    file.write(std::span(named->tensor.raw(), bytes));
  }
  file.commit();
}

}  // namespace nibble::io
