#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_type.h"
#include "core/tensor.h"
#include "formats/packed_weight.h"

namespace nibble::formats::exchange {

struct IntegerGrid;

/// A linear layer [n, k] as another tool stored it: its tensors by what follows the layer's name
/// and a dot in a checkpoint ("qweight", "weight.absmax").
struct StoredLayer {
  std::string name;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::map<std::string, core::Tensor, std::less<>> parts;

  /// Throws kInvalidModel naming the layer when there is no such part.
  const core::Tensor& part(std::string_view name) const;
  /// The same, also when its type or shape is another.
  const core::Tensor& part(std::string_view name, core::DType type, const core::Shape& shape) const;
  /// Null where there is none.
  const core::Tensor* find(std::string_view name) const;
};

/// The same layer as Nibble holds it.
struct ReadLayer {
  PackedWeight weight;
  double scale_error = 0;            // largest relative change of a scale that became float16
  std::vector<std::string> remarks;  // what else is not as the file has it, each a sentence
  double weight_error = 0;           // of all weights where offsets became zero points: Frobenius
                                     // norm of the change relative to theirs
};

/// Layers of one kind of checkpoint. Codes are taken over as they are; nothing is quantized again.
class Reader {
 public:
  virtual ~Reader() = default;

  /// Kind and settings, for people: "gptq, 4 bits, groups of 128".
  virtual std::string description() const = 0;
  /// The parts that a layer may have, bias aside. The first one is there in each compressed layer
  /// and in no other.
  virtual std::span<const std::string_view> part_names() const = 0;
  /// Throws kInvalidModel naming the layer and what is wrong with it.
  virtual ReadLayer read(const StoredLayer& layer) const = 0;
  /// The same for devices on which zero points take less than real minima: where the file has some
  /// and the nearest zero points change the weights little, these take their places, and
  /// ReadLayer::weight_error says how little.
  virtual ReadLayer read_with_zero_points(const StoredLayer& layer) const { return read(layer); }
};

/// A tensor of a written layer, by what follows the layer's name and a dot.
struct WrittenPart {
  std::string_view name;
  core::Tensor tensor;
  std::string_view stored_as = {};  // as io::NamedTensor
};

/// What a written folder's quantization_config is about.
struct WrittenModel {
  Scheme scheme;                    // of all compressed layers
  bool ordered = false;             // whether some have their inputs in an order
  std::vector<std::string> layers;  // prefixes of the compressed ones
  std::vector<std::string> dense;   // of those in the same blocks that are not
};

/// Layers for one kind of checkpoint, in one scheme throughout: integers whose codes and scales are
/// moved.
class Writer {
 public:
  virtual ~Writer() = default;

  /// The scheme of such checkpoints that comes nearest to another; `scheme` itself where the
  /// checkpoints have it. With an order of inputs only where they hold one.
  virtual Scheme nearest(const Scheme& scheme) const = 0;
  /// Why a layer [n, k] of a scheme that nearest() gives can't be written, as the end of a message;
  /// empty: it can.
  virtual std::string problem(const Scheme& scheme, std::int64_t n, std::int64_t k) const = 0;
  /// The parts of a layer that has the scheme, but for the order of its inputs. Scales are float16.
  virtual std::vector<WrittenPart> write(const IntegerGrid& grid) const = 0;
  /// The weights [n, k] of these parts, where they need not be those of the grid; empty: they are.
  virtual std::vector<float> written_weights(const IntegerGrid& /*grid*/) const { return {}; }
  /// quantization_config.
  virtual core::Json config(const WrittenModel& model) const = 0;
  /// Where it stands in config.json.
  virtual std::vector<std::string_view> config_keys() const { return {"quantization_config"}; }
  /// A file of its own that repeats it, which older readers want; empty: none.
  virtual std::string_view config_file() const { return {}; }
};

/// A kind of checkpoint that can be read, and written where it has a writer.
struct Kind {
  std::string_view method;  // "quant_method" of its quantization_config
  std::unique_ptr<const Reader> (*make_reader)(const core::Json& config) = nullptr;
  std::unique_ptr<const Writer> (*make_writer)() = nullptr;
};

/// All of them; the one registration place is all.cpp.
std::span<const Kind> kinds();

/// The reader that `quantization_config` of config.json asks for. Throws kInvalidModel naming a
/// method, version or setting that is not read.
std::unique_ptr<const Reader> make_reader(const core::Json& config);

/// Names `quantization_config` in messages.
inline constexpr std::string_view kConfigName = "config.json quantization_config";

}  // namespace nibble::formats::exchange
