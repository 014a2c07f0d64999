#include "tune/training_state.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"

namespace nibble::tune {
namespace {

using core::ErrorKind;

constexpr const char* kMetadata = "nibble.training";
constexpr const char* kHash = "nibble.hash";

core::Tensor as_tensor(const std::vector<float>& values) {
  return core::Tensor::from<float>(values, {std::ssize(values)});
}

// Of a state: what it says, and the hash of the numbers of each tensor in turn.
class StateHash {
 public:
  explicit StateHash(const std::string& state) : text_(state) {}
  void add(const std::vector<float>& values) {
    text_ += fmt::format(" {:016x}", core::hash64(std::as_bytes(std::span(values))));
  }
  std::string value() const {
    return fmt::format("{:016x}", core::hash64(std::as_bytes(std::span(text_))));
  }

 private:
  std::string text_;
};

const std::string& stored_text(const io::SafetensorsFile& file, const char* key,
                               const std::filesystem::path& path) {
  const auto found = file.metadata().find(key);
  core::require(found != file.metadata().end(), ErrorKind::kInvalidModel,
                "{} is no state of a training run: it has no {}", io::shown(path), key);
  return found->second;
}

}  // namespace

void save_training(const std::filesystem::path& file, const Parameters& parameters,
                   const AdamW& optimizer, const core::Json& more) {
  const std::string state = core::Json{{"steps", optimizer.steps()}, {"more", more}}.dump();
  StateHash hash(state);
  std::vector<io::NamedTensor> tensors;
  const auto add = [&](const std::string& name, const std::vector<float>& values) {
    tensors.push_back({name, as_tensor(values)});
    hash.add(values);
  };
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::string& name = parameters[p]->name;
    const AdamW::Moments& moments = optimizer.moments()[p];
    add(name, parameters[p]->values);
    add(name + ".first_moment", moments.first);
    add(name + ".second_moment", moments.second);
  }
  io::write_safetensors(file, tensors, {{kMetadata, state}, {kHash, hash.value()}});
}

std::optional<core::Json> load_training(const std::filesystem::path& path, std::int64_t most_steps,
                                        const Parameters& parameters, AdamW& optimizer) {
  if (!std::filesystem::exists(path)) {
    return std::nullopt;
  }
  const auto file = io::SafetensorsFile::open(path);
  const std::string& text = stored_text(*file, kMetadata, path);
  StateHash hash(text);
  const auto read = [&](const std::string& name, std::size_t size) {
    core::require(file->contains(name), ErrorKind::kIntegrity,
                  "{} is of another training run: it has no {}", io::shown(path),
                  core::printable(name));
    std::vector<float> values = core::to_float32(file->tensor(name));
    core::require(values.size() == size, ErrorKind::kIntegrity,
                  "{} is of another training run: {} has {} values, not {}", io::shown(path),
                  core::printable(name), values.size(), size);
    hash.add(values);
    return values;
  };
  std::vector<std::vector<float>> values;
  std::vector<AdamW::Moments> moments;
  for (const auto& parameter : parameters) {
    const std::size_t size = parameter->values.size();
    values.push_back(read(parameter->name, size));
    moments.push_back({read(parameter->name + ".first_moment", size),
                       read(parameter->name + ".second_moment", size)});
  }
  core::require(hash.value() == stored_text(*file, kHash, path), ErrorKind::kInvalidModel,
                "{} is damaged: its hash is another; remove it to train from the start",
                io::shown(path));
  const std::string where = io::shown(path).str();
  core::Json state = core::parse_json(text, where);
  const std::int64_t steps = core::get_integer(state, "steps", where, 0, most_steps);
  const auto more = state.find("more");
  core::require(more != state.end() && more->is_object(), ErrorKind::kInvalidModel,
                "{} is no state of a training run: it has no 'more'", io::shown(path));
  optimizer.restore(steps, std::move(moments));
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    parameters[p]->values = std::move(values[p]);
  }
  return std::move(*more);
}

}  // namespace nibble::tune
