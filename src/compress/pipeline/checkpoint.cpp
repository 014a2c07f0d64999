#include "compress/pipeline/checkpoint.h"

#include <set>

#include "core/json.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "models/companion_files.h"
#include "models/exchange/transformers_note.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using core::Json;
using formats::PackedWeight;

constexpr std::string_view kJobFile = "job.json";
constexpr std::string_view kCurvatureFile = "curvature.safetensors";

core::Tensor find_part(const io::SafetensorsFile& file, const std::string& name) {
  return file.contains(name) ? file.tensor(name) : core::Tensor();
}

PackedWeight read_layer(const io::SafetensorsFile& file, const ops::Linear& layer,
                        const formats::Scheme& scheme) {
  PackedWeight weight;
  weight.scheme = scheme;
  weight.n = layer.weight.n;
  weight.k = layer.weight.k;
  for (const formats::PartSlot& slot : formats::part_slots()) {
    weight.*slot.tensor = find_part(file, fmt::format("{}.{}", layer.name, slot.name));
  }
  formats::validate(weight, layer.name);
  return weight;
}

void add_parts(const std::string& layer, const PackedWeight& weight,
               std::vector<io::NamedTensor>& tensors) {
  for (const formats::Part& part : formats::parts(weight)) {
    tensors.push_back({fmt::format("{}.{}", layer, part.name), part.tensor});
  }
}

// Norms and biases stand in a block's shard as [n]; all parts of layers have more dimensions.
bool is_vector(const io::SafetensorsFile& file, const std::string& name) {
  return file.tensor(name).shape().size() == 1;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const models::Model& model, const std::filesystem::path& target,
                                   const Json& job, const std::optional<formats::Scheme>& output,
                                   bool resume)
    : model_(model),
      folder_(io::AtomicFolder::open_or_create(target)),
      output_(output),
      shards_(std::ssize(models::all_blocks(model.network)) + (output ? 2 : 1)) {
  core::require(
      !folder_.resumed() || resume, ErrorKind::kUsage,
      "an unfinished job lies in {}: give --resume to go on with it, or remove that folder",
      io::shown(folder_.path()));
  const std::filesystem::path file = folder_.path() / kJobFile;
  if (std::filesystem::exists(file)) {
    const Json stored = io::load_json_file(file);
    core::require(stored == job, ErrorKind::kIntegrity,
                  "{} holds an unfinished job with another model, recipe or calibration; call it "
                  "with the same "
                  "arguments, or remove that folder",
                  io::shown(folder_.path()));
    return;
  }
  try {
    io::write_file_atomically(file, job.dump(1));
  } catch (const core::Error&) {
    folder_.discard();
    throw;
  }
}

CheckpointWriter::~CheckpointWriter() {
  try {
    if (!committed_ && folder_.files() == std::vector<std::string>{std::string(kJobFile)}) {
      folder_.discard();
    }
  } catch (const core::Error&) {  // it stays, as after a kill
  }
}

std::filesystem::path CheckpointWriter::curvature_file() const {
  return folder_.path() / kCurvatureFile;
}

std::string CheckpointWriter::shard_name(std::int64_t shard) const {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards_);
}

std::optional<CompressedBlock> CheckpointWriter::finished_block(
    std::int64_t block, const std::map<std::string, formats::Scheme>& schemes) const {
  const std::filesystem::path path = folder_.path() / shard_name(block + 1);
  if (!std::filesystem::exists(path)) {
    return std::nullopt;
  }
  const auto file = io::SafetensorsFile::open(path);
  CompressedBlock compressed;
  for (const ops::LinearSet* set :
       models::linear_sets(*models::all_blocks(model_.network)[static_cast<std::size_t>(block)])) {
    for (const ops::Linear& layer : set->parts) {
      if (const auto scheme = schemes.find(layer.name); scheme != schemes.end()) {
        compressed.layers.emplace(layer.name, read_layer(*file, layer, scheme->second));
      } else if (const std::string name = layer.name + ".weight"; file->contains(name)) {
        core::Tensor weight = file->tensor(name);
        core::require(weight.shape() == core::Shape{layer.weight.n, layer.weight.k},
                      ErrorKind::kInvalidModel, "{}: {} has another shape than its layer",
                      io::shown(path), core::printable(name));
        compressed.layers.emplace(layer.name, formats::dense_weight(std::move(weight)));
      }
    }
  }
  for (const std::string& name : file->names()) {
    if (is_vector(*file, name)) {
      compressed.vectors.emplace(name, core::to_float32(file->tensor(name)));
    }
  }
  return compressed;
}

void CheckpointWriter::write_block(std::int64_t block, const CompressedBlock& compressed) {
  std::vector<io::NamedTensor> tensors;
  for (const auto& [name, weight] : compressed.layers) {
    add_parts(name, weight, tensors);
  }
  for (const auto& [name, values] : compressed.vectors) {
    tensors.push_back(
        {name, core::Tensor::from<float>(values, {static_cast<std::int64_t>(values.size())})});
  }
  io::write_safetensors(folder_.path() / shard_name(block + 1), tensors);
}

bool CheckpointWriter::finished_output() const {
  const std::filesystem::path path = folder_.path() / shard_name(output_shard());
  if (!std::filesystem::exists(path)) {
    return false;
  }
  ops::Linear layer = model_.network.output.parts.front();
  layer.name = models::kOutputName;
  (void)read_layer(*io::SafetensorsFile::open(path), layer, output_.value());
  return true;
}

void CheckpointWriter::write_output(const PackedWeight& weight) {
  std::vector<io::NamedTensor> tensors;
  add_parts(models::kOutputName, weight, tensors);
  io::write_safetensors(folder_.path() / shard_name(output_shard()), tensors);
}

std::vector<io::NamedTensor> CheckpointWriter::end_tensors() const {
  std::vector<io::NamedTensor> tensors;
  if (!ends_) {
    return tensors;
  }
  const models::Network& network = model_.network;
  tensors.push_back({network.embeddings.tokens_name, ends_->embedding});
  if (!ends_->positions.empty()) {
    tensors.push_back({network.embeddings.positions_name, ends_->positions});
  }
  if (!output_) {
    tensors.push_back({fmt::format("{}.weight", models::kOutputName), ends_->output});
  }
  const auto add = [&](const char* name, const std::vector<float>& values) {
    if (!values.empty()) {
      tensors.push_back(
          {fmt::format("{}.{}", ends_->final_norm.name, name),
           core::Tensor::from<float>(values, {static_cast<std::int64_t>(values.size())})});
    }
  };
  add("weight", stored_weight(ends_->final_norm));
  add("bias", ends_->final_norm.bias);
  return tensors;
}

// Every tensor of the source that no block's shard replaces.
void CheckpointWriter::write_rest(const std::map<std::string, formats::Scheme>& schemes) {
  std::set<std::string, std::less<>> replaced_names;
  for (const auto& [name, scheme] : schemes) {
    replaced_names.insert(name + ".weight");
  }
  for (std::int64_t shard = 1; shard < shards_; ++shard) {
    for (const std::string& name :
         io::SafetensorsFile::open(folder_.path() / shard_name(shard))->names()) {
      replaced_names.insert(name);
    }
  }
  std::vector<io::NamedTensor> tensors = end_tensors();
  for (const io::NamedTensor& tensor : tensors) {
    replaced_names.insert(tensor.name);
  }
  for (const std::string& name : model_.source->names()) {
    if (!replaced_names.contains(name)) {
      tensors.push_back({name, model_.source->load(name)});
    }
  }
  io::write_safetensors(folder_.path() / shard_name(0), tensors);
}

void CheckpointWriter::write_index() const {
  Json weight_map = Json::object();
  std::int64_t total = 0;
  for (std::int64_t shard = 0; shard < shards_; ++shard) {
    const auto file = io::SafetensorsFile::open(folder_.path() / shard_name(shard));
    total += file->data_bytes();
    for (const std::string& name : file->names()) {
      weight_map[name] = shard_name(shard);
    }
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weight_map)}};
  io::write_file_atomically(folder_.path() / "model.safetensors.index.json", index.dump(2) + "\n");
}

void CheckpointWriter::write_config(const models::CompressionInfo& info) const {
  Json layers = Json::object();
  for (const auto& [name, scheme] : info.schemes) {
    layers[name] = formats::to_string(scheme);
  }
  Json config = *model_.config_json;
  if (ends_ || output_) {
    config["tie_word_embeddings"] = false;
  }
  config["quantization_config"] = {{"quant_method", "nibble"},
                                   {"format_version", models::kCheckpointVersion},
                                   {"recipe", info.recipe},
                                   {"keeps_inputs", info.keeps_inputs.value()},
                                   {"layers", std::move(layers)}};
  config[models::kTransformersKey] = models::kTransformersNote;
  if (info.tuned) {
    config["quantization_config"]["tuned"] = {{"device", info.tuned->device},
                                              {"batch", info.tuned->batch},
                                              {"seq", info.tuned->seq},
                                              {"loss", info.tuned->loss},
                                              {"measure", info.tuned->measure}};
  }
  io::write_file_atomically(folder_.path() / "config.json", config.dump(2) + "\n");
}

void CheckpointWriter::complete(const models::CompressionInfo& info) {
  write_rest(info.schemes);
  write_index();
  write_config(info);
  models::copy_companions(model_, folder_.path());
}

void CheckpointWriter::write_file(std::string_view name, std::string_view text) {
  io::write_file_atomically(folder_.path() / name, text);
}

void CheckpointWriter::commit() {
  std::filesystem::remove(curvature_file());
  std::filesystem::remove(folder_.path() / kJobFile);
  committed_ = true;
  folder_.commit();
}

}  // namespace nibble::compress
