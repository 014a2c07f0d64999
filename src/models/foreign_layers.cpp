#include "models/foreign_layers.h"

#include <cstring>
#include <utility>

#include "core/error.h"

namespace nibble::models {
namespace {

constexpr std::int64_t kAlignment = 64;  // of parts, as core::Tensor has it

// The parts that grow with the layer. Others stay where they are: a layout may keep the order of
// the inputs.
constexpr core::Tensor formats::PackedWeight::*kLargeParts[] = {
    &formats::PackedWeight::codes,  &formats::PackedWeight::scales,
    &formats::PackedWeight::supers, &formats::PackedWeight::zeros,
    &formats::PackedWeight::minima, &formats::PackedWeight::min_supers};

std::int64_t room_for(const core::Tensor& tensor) {
  return (tensor.bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t room_for(const formats::PackedWeight& weight) {
  std::int64_t bytes = 0;
  for (const auto part : kLargeParts) {
    bytes += room_for(weight.*part);
  }
  return bytes;
}

// Puts the large parts of a weight one behind another, and calls place(part, where) for each.
template <typename Place>
void put_parts(const formats::PackedWeight& weight, std::byte* to, const Place& place) {
  for (const auto part : kLargeParts) {
    const core::Tensor& tensor = weight.*part;
    const std::int64_t room = room_for(tensor);
    if (!tensor.empty()) {
      std::memcpy(to, tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
      place(part, to);
      to += room;
    }
  }
}

}  // namespace

formats::PackedWeight ForeignLayers::keep(const std::string& name, formats::PackedWeight weight) {
  const auto memory = std::make_shared<core::ReleasableMemory>(room_for(weight));
  put_parts(weight, memory->data(), [&](const auto part, const std::byte* where) {
    core::Tensor& tensor = weight.*part;
    tensor =
        core::Tensor::view(tensor.dtype(), tensor.shape(), where, memory);  // frees what it had
  });
  Kept kept;
  kept.memory = memory;
  kept.shape.scheme = weight.scheme;
  kept.shape.n = weight.n;
  kept.shape.k = weight.k;
  const std::lock_guard lock(mutex_);
  layers_.insert_or_assign(name, std::move(kept));
  return weight;
}

void ForeignLayers::hold(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto at = layers_.find(name);
  if (at == layers_.end()) {
    return;
  }
  Kept& kept = at->second;
  const auto memory = kept.memory.lock();
  if (memory != nullptr && !kept.there) {
    make_again(name, kept, *memory);
    kept.there = true;
  }
  ++kept.readers;
}

void ForeignLayers::make_again(const std::string& name, const Kept& kept,
                               core::ReleasableMemory& memory) const {
  const auto layer = source_->foreign_layer(name, kept.shape.n, kept.shape.k);
  core::require(layer && layer->read.weight.scheme == kept.shape.scheme &&
                    room_for(layer->read.weight) == memory.bytes(),
                core::ErrorKind::kIntegrity,
                "layer {}: its file has changed since the model was opened", name);
  memory.take_again();
  put_parts(layer->read.weight, memory.data(), [](const auto&, const std::byte*) {});
}

std::int64_t ForeignLayers::bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [name, kept] : layers_) {
    const auto memory = kept.memory.lock();
    bytes += memory != nullptr && kept.there ? memory->bytes() : 0;
  }
  return bytes;
}

void ForeignLayers::let_go(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto at = layers_.find(name);
  if (at == layers_.end() || --at->second.readers > 0) {
    return;
  }
  if (const auto memory = at->second.memory.lock()) {
    memory->release();
    at->second.there = false;
  }
}

}  // namespace nibble::models
