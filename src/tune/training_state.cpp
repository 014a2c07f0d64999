#include "tune/training_state.h"

#include <utility>
#include <vector>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"

namespace nibble::tune {
namespace {

using core::ErrorKind;

constexpr const char* kMetadata = "nibble.training";

core::Tensor as_tensor(const std::vector<float>& values) {
  return core::Tensor::from<float>(values, {std::ssize(values)});
}

}  // namespace

void save_training(const std::filesystem::path& file, const Parameters& parameters,
                   const AdamW& optimizer, const core::Json& more) {
  std::vector<io::NamedTensor> tensors;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::string& name = parameters[p]->name;
    const AdamW::Moments& moments = optimizer.moments()[p];
    tensors.push_back({name, as_tensor(parameters[p]->values)});
    tensors.push_back({name + ".first_moment", as_tensor(moments.first)});
    tensors.push_back({name + ".second_moment", as_tensor(moments.second)});
  }
  const core::Json state = {{"steps", optimizer.steps()}, {"more", more}};
  io::write_safetensors(file, tensors, {{kMetadata, state.dump()}});
}

std::optional<core::Json> load_training(const std::filesystem::path& path,
                                        const Parameters& parameters, AdamW& optimizer) {
  if (!std::filesystem::exists(path)) {
    return std::nullopt;
  }
  const auto file = io::SafetensorsFile::open(path);
  const auto read = [&](const std::string& name, std::size_t size) {
    core::require(file->contains(name), ErrorKind::kIntegrity,
                  "{} is of another training run: it has no {}", io::shown(path),
                  core::printable(name));
    std::vector<float> values = core::to_float32(file->tensor(name));
    core::require(values.size() == size, ErrorKind::kIntegrity,
                  "{} is of another training run: {} has {} values, not {}", io::shown(path),
                  core::printable(name), values.size(), size);
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
  const auto stored = file->metadata().find(kMetadata);
  const core::Json state = stored == file->metadata().end()
                               ? core::Json()
                               : core::Json::parse(stored->second, nullptr, false);
  core::require(state.is_object() && state.contains("more") && state.contains("steps") &&
                    state["steps"].is_number_integer(),
                ErrorKind::kInvalidModel, "{} is no state of a training run", io::shown(path));
  optimizer.restore(state["steps"].get<std::int64_t>(), std::move(moments));
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    parameters[p]->values = std::move(values[p]);
  }
  return state["more"];
}

}  // namespace nibble::tune
