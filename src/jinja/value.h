#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The values of a template: Python's, as far as templates see them. All are immutable except
// namespaces, generators (which run out) and the loop variable, so sharing them is cheap and they
// form no cycles.
namespace nibble::jinja {

/// Python's integers have no limit; 128 bits hold every integer of a JSON document that fits int64
/// or uint64, and arithmetic that leaves them is refused.
__extension__ typedef __int128 Int;
__extension__ typedef unsigned __int128 UnsignedInt;

class Value;
class Dict;
class Loop;
struct Function;
struct Namespace;
using Items = std::vector<Value>;

/// The order is that of Value::Storage.
enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kGenerator,
  kNamespace,
  kFunction,
  kLoop,
};

/// What a missing variable, attribute or item gives: prints as nothing, refuses everything else.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

struct None {};

/// `markup` is the mark of the filters `safe` and `escape`: adding unmarked text escapes it.
struct Text {
  std::string bytes;  // valid UTF-8
  bool markup = false;
};

struct Sequence {
  Items items;
  int depth = 1;
};

struct List {
  std::shared_ptr<const Sequence> data;
};

struct Tuple {
  std::shared_ptr<const Sequence> data;
};

/// dict.keys(), dict.values(), dict.items().
struct DictView {
  enum class Part { kKeys, kValues, kItems };
  Part part = Part::kKeys;
  std::shared_ptr<const Dict> dict;
};

struct Range {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
  std::int64_t size = 0;

  Int at(std::int64_t index) const { return Int{start} + Int{step} * index; }
};

/// What filters like map and select give: can be walked through once.
struct Generator {
  Items items;
  std::size_t next = 0;
  int depth = 1;
};

class Value {
 public:
  using Storage =
      std::variant<Undefined, None, bool, Int, double, std::shared_ptr<const Text>, List, Tuple,
                   std::shared_ptr<const Dict>, DictView, Range, std::shared_ptr<Generator>,
                   Namespace*, std::shared_ptr<const Function>, std::shared_ptr<Loop>>;

  /// None.
  Value() : storage_(None{}) {}
  explicit Value(Storage storage) : storage_(std::move(storage)) {}

  static Value undefined(std::string why);
  static Value boolean(bool value) { return Value(Storage(std::in_place_type<bool>, value)); }
  static Value integer(Int value) { return Value(Storage(std::in_place_type<Int>, value)); }
  static Value real(double value) { return Value(Storage(std::in_place_type<double>, value)); }
  static Value text(std::string bytes, bool markup = false);

  Kind kind() const { return static_cast<Kind>(storage_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_none() const { return is(Kind::kNone); }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_string() const { return is(Kind::kString); }

  /// bool, int or float.
  bool is_number() const;
  /// bool or int, which Python treats alike.
  bool is_integral() const { return is(Kind::kBool) || is(Kind::kInt); }

  // The content; each wants a value of the right kind.
  const std::string& why() const { return *std::get<Undefined>(storage_).why; }
  bool truth() const { return std::get<bool>(storage_); }
  Int integral() const { return is(Kind::kBool) ? Int{truth()} : std::get<Int>(storage_); }
  double number() const;
  const std::string& bytes() const { return text_data().bytes; }
  bool is_markup() const { return is_string() && text_data().markup; }
  const Items& items() const;  // of a list or a tuple
  const std::shared_ptr<const Dict>& dict() const;
  const DictView& view() const { return std::get<DictView>(storage_); }
  const Range& range() const { return std::get<Range>(storage_); }
  Generator& generator() const { return *std::get<std::shared_ptr<Generator>>(storage_); }
  Namespace& space() const { return *std::get<Namespace*>(storage_); }
  const Function& function() const { return *std::get<std::shared_ptr<const Function>>(storage_); }
  Loop& loop() const { return *std::get<std::shared_ptr<Loop>>(storage_); }

  /// Levels of containers, 0 for a scalar. Bounded, so that walks over values and their
  /// destruction may recurse.
  int depth() const;

  /// Python's `is`.
  bool same_object(const Value& other) const;

  /// The name of the Python type, for messages.
  std::string_view type_name() const;

 private:
  const Text& text_data() const { return *std::get<std::shared_ptr<const Text>>(storage_); }

  Storage storage_;
};

/// Whether two numbers are equal, exactly, whatever their types; NaN equals nothing.
bool equal_numbers(const Value& a, const Value& b);

/// A dictionary that keeps its order of insertion. Keys are strings, numbers, booleans and None.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  static bool can_be_key(const Value& value);

  /// The value at `key`, null when absent. 1, 1.0 and true are one key, as in Python.
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;

  /// Adds the entry, or replaces the value of an equal key where it stands.
  void set(Value key, Value value);

  const std::vector<Entry>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  std::int64_t index_of(const Value& key) const;

  std::vector<Entry> entries_;
  // Positions of the string keys; the views point into the keys' own text, which never moves.
  // Trees: a client chooses keys, and could choose such that all have one hash.
  std::map<std::string_view, std::int64_t> strings_;
  std::map<std::string, std::int64_t> others_;  // the same for the rest, spelled out
  int depth_ = 1;
};

/// namespace(...): the one thing that templates may change. The interpreter owns all of them, so
/// that one which holds itself is no leak.
struct Namespace {
  Dict attributes;
};

}  // namespace nibble::jinja
