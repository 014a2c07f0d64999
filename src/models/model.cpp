#include "models/model.h"

#include <algorithm>

#include "core/json.h"
#include "io/file_descriptor.h"
#include "io/gguf.h"
#include "io/json_file.h"
#include "io/tensor_store.h"
#include "models/build_model.h"
#include "models/build_network.h"
#include "models/config_reader.h"
#include "models/exchange/foreign_source.h"
#include "models/family.h"
#include "models/folder_source.h"
#include "models/gguf/gguf_source.h"
#include "models/gguf/vocabulary_json.h"
#include "models/pooling_config.h"
#include "models/shard.h"
#include "models/tile_file_mark.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;

// GGUF files of Llama 3.1 and later carry their frequency scaling as a tensor of divisors.
void apply_rope_factors(const WeightSource& source, NetworkConfig& config) {
  if (!source.contains("rope_freqs.weight")) {
    return;
  }
  const std::vector<float> factors = core::to_float32(source.load("rope_freqs.weight"));
  core::require(factors.size() == config.inverse_frequency.size(), ErrorKind::kInvalidModel,
                "GGUF: 'rope_freqs.weight' has {} values, expected {}", factors.size(),
                config.inverse_frequency.size());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    config.inverse_frequency[i] /= factors[i];
  }
}

// What config.json alone decides: read before any other file is opened, so that a model that is not
// supported is refused for that, whatever else is missing.
const Family& read_kind(Model& model) {
  const Family& family =
      find_family(core::get_string(*model.config_json, "model_type", "config.json"));
  model.compression = read_compression(*model.config_json);
  return family;
}

void collect_end_tokens(Model& model, const Json& generation) {
  const NetworkConfig& config = model.network.config;
  std::vector<std::int32_t>& ends = model.end_tokens;
  ends = config.eos;
  const auto more = ConfigReader(generation).token_ids("eos_token_id", config.vocabulary);
  ends.insert(ends.end(), more.begin(), more.end());
  const auto& known = model.tokenizer->end_tokens();
  ends.insert(ends.end(), known.begin(), known.end());
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

void open_folder(Model& model, const Shard& shard, StoredLayers stored) {
  core::require(std::filesystem::exists(model.path / "config.json"), ErrorKind::kIo,
                "{} has no config.json; give the folder of a Hugging Face model or a .gguf file",
                io::shown(model.path));
  model.config_json = io::load_json_file(model.path / "config.json");
  add_older_config(*model.config_json, model.path);
  const Family& family = read_kind(model);
  model.source = std::make_shared<FolderSource>(io::TensorStore::open(model.path));
  if (model.compression.reader) {
    model.source = std::make_shared<ForeignSource>(model.source, model.compression.reader,
                                                   stored == StoredLayers::kZeroPoints);
  }
  build(model, family, shard);
  if (model.network.has_encoder()) {
    model.network.pooling = read_pooling(model.path);
  }
  const std::filesystem::path vocabulary = model.path / kVocabularyFile;
  model.tokenizer =
      std::filesystem::exists(vocabulary)
          ? text::Tokenizer::from_vocabulary(vocabulary_from_json(io::load_json_file(vocabulary)))
          : text::Tokenizer::from_folder(model.path);
  const std::filesystem::path generation = model.path / "generation_config.json";
  collect_end_tokens(
      model, std::filesystem::exists(generation) ? io::load_json_file(generation) : Json::object());
}

void open_gguf(Model& model, const Shard& shard, StoredLayers stored) {
  const auto file = io::GgufFile::open(model.path);
  model.config_json = gguf_config(*file, stored);
  const Family& family = read_kind(model);
  const auto source = std::make_shared<GgufSource>(file, stored);
  model.source = source;
  build(model, family, shard);
  model.compression.recipe = source->recipe(model.compression.schemes);
  for (std::string& remark : source->remarks()) {
    model.compression.remarks.push_back(std::move(remark));
  }
  const text::Vocabulary vocabulary = gguf_vocabulary(file->metadata());
  model.tokenizer = text::Tokenizer::from_vocabulary(vocabulary);
  model.companions.emplace(kVocabularyFile, vocabulary_to_text(vocabulary));
  collect_end_tokens(model, Json::object());
}

// The tokenizer may know special tokens that the model has no row for (that of images in the
// smallest Gemma 3, which reads none): prompts with them are refused one by one.
void require_vocabulary(const Model& model) {
  const std::int64_t count = model.tokenizer->vocab_size();
  const std::int64_t rows = model.network.config.vocabulary;
  constexpr std::int64_t kMostSpecial = 64;
  bool special = count <= rows || (!model.network.has_encoder() && count - rows <= kMostSpecial);
  for (std::int64_t id = rows; special && id < count; ++id) {
    special = model.tokenizer->is_special(static_cast<std::int32_t>(id));
  }
  core::require(special, ErrorKind::kInvalidModel,
                "{}: the tokenizer has {} tokens, more than the model's vocabulary of {}",
                io::shown(model.path), count, rows);
}

}  // namespace

void build(Model& model, const Family& family, const Shard& shard) {
  Architecture architecture = family.read_config(*model.config_json);
  architecture.config.family = family.model_type;
  apply_rope_factors(*model.source, architecture.config);
  validate(architecture);
  model.foreign = std::make_shared<ForeignLayers>(model.source);
  WeightLoader loader(*model.source, model.compression.schemes, model.foreign.get());
  model.network = build_network(architecture, family.names, loader, shard);
  loader.require_schemes_used();
  model.compression.remarks = loader.remarks();
  const std::vector<std::string>& remarks = loader.imports().remarks();
  model.compression.remarks.insert(model.compression.remarks.end(), remarks.begin(), remarks.end());
  if (!loader.imports().schemes().empty()) {
    model.compression.schemes = loader.imports().schemes();
  }
  if (model.compression.reader) {
    core::require(!model.compression.schemes.empty(), ErrorKind::kInvalidModel,
                  "{}: it speaks of '{}', and no layer of the model is compressed so",
                  formats::exchange::kConfigName, core::printable(model.compression.recipe));
  }
}

std::shared_ptr<Model> open_model(const std::filesystem::path& path, StoredLayers stored) {
  return open_model(path, Shard(), stored);
}

std::shared_ptr<Model> open_model(const std::filesystem::path& path, const Shard& shard,
                                  StoredLayers stored) {
  auto model = std::make_shared<Model>();
  model->path = path;
  core::require(std::filesystem::exists(path), ErrorKind::kIo, "there is no model at {}",
                io::shown(path));
  core::require(
      !is_tile_file(path), ErrorKind::kUsage,
      "{} is not a model but holds layouts of one (nibble pack); give the model, and this "
      "file with --packed",
      io::shown(path));
  std::filesystem::is_directory(path) ? open_folder(*model, shard, stored)
                                      : open_gguf(*model, shard, stored);
  require_vocabulary(*model);
  return model;
}

LayerHold::LayerHold(const Model& model, const ops::Linear& layer) : model_(model), layer_(layer) {
  if (model_.foreign != nullptr) {
    model_.foreign->hold(layer.name);
  }
}

LayerHold::~LayerHold() {
  if (model_.foreign != nullptr) {
    model_.foreign->let_go(layer_.name);
  }
  release_pages(model_, layer_);
}

void release_pages(const Model& model, const ops::Linear& layer) {
  if (model.source == nullptr || formats::is_dense(layer.weight.scheme)) {
    return;
  }
  for (const formats::Part& part : formats::parts(layer.weight)) {
    model.source->release_pages(fmt::format("{}.{}", layer.name, part.name));
  }
}

}  // namespace nibble::models
