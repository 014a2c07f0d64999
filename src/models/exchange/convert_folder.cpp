#include <algorithm>
#include <functional>

#include "core/nearest_name.h"
#include "models/exchange/conversion.h"
#include "models/exchange/hf_folder.h"
#include "models/exchange/layer_conversion.h"
#include "models/exchange/model_layers.h"
#include "models/exchange/plain_weights.h"
#include "models/exchange/target_scheme.h"
#include "models/exchange/transformers_note.h"
#include "models/gguf/vocabulary_json.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using formats::Scheme;
using formats::exchange::Writer;
using Tensors = std::vector<io::NamedTensor>;

// What a folder's layers become, one after another.
class LayerWriter {
 public:
  virtual ~LayerWriter() = default;
  // Adds the tensors of a compressed layer of a block.
  virtual ConvertedLayer write(const ops::Linear& layer, Tensors& tensors) = 0;
  // Fields of config.json; `dense`: layers that are not compressed.
  virtual void finish(HfFolder& folder, core::Json& config, std::vector<std::string> dense,
                      Conversion& conversion) = 0;
};

void set_float_type(core::Json& config, const char* name) {
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = name;
}

const char* torch_name(core::DType type) {
  return type == core::DType::kF32 ? "float32" : type == core::DType::kF16 ? "float16" : "bfloat16";
}

class DenseWriter final : public LayerWriter {
 public:
  DenseWriter(const Model& model, const ConversionOptions& options, core::ThreadPool& pool)
      : conv1d_(stores_conv1d(model)), type_(float_type_of(*model.config_json)), pool_(pool) {
    if (options.scheme) {
      core::require(formats::is_dense(*options.scheme), ErrorKind::kUsage,
                    "hf stores plain numbers (f16, bf16, f32), not {}", *options.scheme);
      type_ = options.scheme->code.dense;
    }
  }

  ConvertedLayer write(const ops::Linear& layer, Tensors& tensors) override {
    DenseLayer dense = to_dense(layer, type_, pool_);
    tensors.push_back(
        {layer.name + ".weight", conv1d_ ? transposed(dense.tensor) : std::move(dense.tensor)});
    return std::move(dense.report);
  }

  void finish(HfFolder&, core::Json& config, std::vector<std::string>, Conversion&) override {
    set_float_type(config, torch_name(type_));
  }

 private:
  bool conv1d_;
  core::DType type_;
  core::ThreadPool& pool_;
};

class CodeWriter final : public LayerWriter {
 public:
  CodeWriter(const Model& model, std::string_view method, std::unique_ptr<const Writer> writer,
             const ConversionOptions& options, core::ThreadPool& pool)
      : writer_(std::move(writer)), round_(options.round), pool_(pool) {
    require_family(model, method);
    scheme_ = target_scheme(model, method, *writer_, options.scheme);
    for (const ops::Linear* layer : layers_to_convert(model.network)) {
      const std::string problem = writer_->problem(scheme_, layer->weight.n, layer->weight.k);
      core::require(problem.empty(), ErrorKind::kInvalidModel,
                    "{} can't hold layer {}: {}; --scheme chooses another", method,
                    core::printable(layer->name), problem);
    }
  }

  ConvertedLayer write(const ops::Linear& layer, Tensors& tensors) override {
    Scheme scheme = scheme_;
    const Scheme& stored = layer.weight.scheme;
    scheme.inputs.ordered = formats::has_codes(stored) && writer_->nearest(stored).inputs.ordered;
    GridLayer converted = to_grid(layer, scheme, round_, pool_);
    for (formats::exchange::WrittenPart& part : writer_->write(converted.grid)) {
      converted.report.stored_bytes += part.tensor.bytes();
      tensors.push_back(
          {fmt::format("{}.{}", layer.name, part.name), std::move(part.tensor), part.stored_as});
    }
    measure(layer, converted);
    ordered_ = ordered_ || !converted.grid.order.empty();
    layers_.push_back(layer.name);
    float_inputs_ += !stored.activation.is_float() && scheme.activation.is_float() ? 1 : 0;
    return std::move(converted.report);
  }

  void finish(HfFolder& folder, core::Json& config, std::vector<std::string> dense,
              Conversion& conversion) override {
    const core::Json compression = writer_->config({scheme_, ordered_, layers_, std::move(dense)});
    if (!writer_->config_file().empty()) {
      folder.write_json(writer_->config_file(), compression);
    }
    for (const std::string_view key : writer_->config_keys()) {
      config[std::string(key)] = compression;
    }
    if (float_type_of(config) == core::DType::kBF16) {
      conversion.remarks.emplace_back(
          "config.json says float16 in place of bfloat16: scales are float16, and readers round "
          "them to the type it says");
    }
    set_float_type(config, "float16");
    if (float_inputs_ > 0) {
      conversion.remarks.push_back(
          fmt::format("inputs of {} layers are not rounded any more", float_inputs_));
    }
    if (!scheme_.activation.is_float()) {
      conversion.remarks.emplace_back(
          "compressed-tensors rounds inputs by max|x| / 127.5, where Nibble has 127");
    }
    if (compression.value("quant_method", "") == "gptq" && scheme_.code.bits < 4) {
      conversion.remarks.emplace_back("vLLM loads GPTQ of 4 and 8 bits only");
    }
  }

 private:
  // Where the target rounds what a grid has.
  void measure(const ops::Linear& layer, GridLayer& converted) {
    const std::vector<float> written = writer_->written_weights(converted.grid);
    if (written.empty()) {
      return;
    }
    ConvertedLayer& report = converted.report;
    report.squared_error = report.squared_weights = 0;
    add_errors(report, plain_weights(layer.weight, pool_), written);
    report.exact = report.squared_error == 0;
  }

  std::unique_ptr<const Writer> writer_;
  const Rounder& round_;
  core::ThreadPool& pool_;
  Scheme scheme_;
  bool ordered_ = false;
  std::int64_t float_inputs_ = 0;
  std::vector<std::string> layers_;
};

// Walks through the model.
class FolderConversion {
 public:
  FolderConversion(const Model& model, LayerWriter& writer, const std::filesystem::path& target,
                   core::ThreadPool& pool, core::ProgressSink& progress)
      : model_(model),
        blocks_(all_blocks(model.network)),
        writer_(writer),
        pool_(pool),
        progress_(progress),
        folder_(target, std::ssize(blocks_) + 1) {
    for (const ops::Linear* layer : layers_to_convert(model.network)) {
      converted_.insert(layer->name);
    }
  }

  Conversion run() {
    progress_.begin("convert", std::ssize(blocks_));
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      write_block(*blocks_[i]);
      model_.source->release_pages();
      progress_.update(static_cast<std::int64_t>(i) + 1, fmt::format("block {}", i));
    }
    write_rest();
    core::Json config = *model_.config_json;
    config.erase("quantization_config");
    config.erase("quantization");
    if (model_.compression.reader == nullptr && !model_.compression.schemes.empty()) {
      config.erase(kTransformersKey);
    }
    writer_.finish(folder_, config, dense_, conversion_);
    folder_.write_json("config.json", config);
    model_.source->check_unchanged();
    folder_.commit(model_);
    progress_.end();
    if (model_.companions.contains(kVocabularyFile)) {
      conversion_.remarks.emplace_back(
          "the tokenizer of a GGUF file is written for Nibble alone; others need the original's "
          "tokenizer.json in the folder");
    }
    return std::move(conversion_);
  }

 private:
  void take(const ops::Linear& layer) { taken_.merge(weight_names(model_, layer)); }

  void write_block(const Block& block) {
    Tensors tensors;
    for (const ops::Linear* layer : layers_of(block)) {
      take(*layer);
      if (converted_.contains(layer->name)) {
        conversion_.layers.push_back(writer_.write(*layer, tensors));
      } else {
        dense_.push_back(layer->name);
        const core::Tensor& weight = layer->weight.dense;
        tensors.push_back(
            {layer->name + ".weight", stores_conv1d(model_) ? transposed(weight) : weight});
      }
    }
    folder_.write_shard(tensors);
  }

  // Layers outside the blocks stay dense, or become so.
  void write_ends(Tensors& tensors) {
    for (const ops::LinearSet* set : end_sets(model_.network)) {
      for (const ops::Linear& layer : set->parts) {
        if (shares_embedding(model_.network, layer)) {
          continue;
        }
        if (layer.name != kOutputName) {
          dense_.push_back(layer.name);
        }
        if (!formats::is_dense(layer.weight.scheme)) {
          take(layer);
          DenseLayer dense = to_dense(layer, float_type_of(*model_.config_json), pool_);
          tensors.push_back({layer.name + ".weight", std::move(dense.tensor)});
          conversion_.layers.push_back(std::move(dense.report));
        }
      }
    }
  }

  // A table that another tool compressed is plain in the model.
  void write_tables(Tensors& tensors) {
    const Embeddings& tables = model_.network.embeddings;
    ops::Linear table;
    table.name = tables.tokens_name.substr(0, tables.tokens_name.rfind('.'));
    const auto names = weight_names(model_, table);
    const bool compressed = std::any_of(names.begin(), names.end(), [&](const auto& name) {
      return name != tables.tokens_name && model_.source->contains(name);
    });
    if (model_.compression.reader && compressed) {
      take(table);
      tensors.push_back({tables.tokens_name, tables.tokens.plain()});
    }
  }

  void write_rest() {
    Tensors tensors;
    write_ends(tensors);
    write_tables(tensors);
    for (const std::string& name : model_.source->names()) {
      core::require(name != "rope_freqs.weight", ErrorKind::kInvalidModel,
                    "the file has its rotary frequencies as a tensor, for which config.json has no "
                    "place; start from the model's folder");
      // What the keys' cache subtracts from all keys changes no score, and others do not know it.
      if (!taken_.contains(name) && !name.ends_with(".key_centre")) {
        tensors.push_back({name, model_.source->load(name)});
      }
    }
    folder_.write_shard(tensors);
  }

  const Model& model_;
  std::vector<const Block*> blocks_;
  LayerWriter& writer_;
  core::ThreadPool& pool_;
  core::ProgressSink& progress_;
  HfFolder folder_;
  std::set<std::string, std::less<>> converted_;  // layers
  std::set<std::string, std::less<>> taken_;      // tensors of the source
  std::vector<std::string> dense_;
  Conversion conversion_;
};

std::unique_ptr<LayerWriter> make_layer_writer(const Model& model, std::string_view method,
                                               const ConversionOptions& options,
                                               core::ThreadPool& pool) {
  if (method == "hf") {
    return std::make_unique<DenseWriter>(model, options, pool);
  }
  for (const formats::exchange::Kind& kind : formats::exchange::kinds()) {
    if (kind.method == method && kind.make_writer != nullptr) {
      return std::make_unique<CodeWriter>(model, method, kind.make_writer(), options, pool);
    }
  }
  core::fail(ErrorKind::kUsage, "models are not written as '{}'", core::printable(method));
}

}  // namespace

Conversion convert_folder(const Model& model, std::string_view method,
                          const std::filesystem::path& target, const ConversionOptions& options,
                          core::ProgressSink& progress) {
  core::ThreadPool pool(options.threads);
  const auto writer = make_layer_writer(model, method, options, pool);
  return FolderConversion(model, *writer, target, pool, progress).run();
}

}  // namespace nibble::models
