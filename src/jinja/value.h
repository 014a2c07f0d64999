#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The values of a template: Python's, as far as chat templates see them. All are immutable except
// namespaces, generators (which run out) and the loop variable, so sharing them is cheap and they
// form no cycles.
namespace nibble::jinja {

/// Python's integers have no limit; 128 bits hold every integer of a JSON document that fits int64
/// or uint64, and arithmetic that leaves them is refused.
__extension__ typedef __int128 Int;

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
  kSequence,
  kDict,
  kNamespace,
  kFunction,
  kLoop,
};

/// What a missing variable, attribute or item gives: prints as nothing, refuses everything else.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

struct None {};

/// Everything that holds items in order. What filters such as map give is a generator, which can be
/// walked through once; what range() and the methods of a dict give can be walked through, counted
/// and (a range) indexed.
struct Sequence {
  enum class Form { kList, kTuple, kRange, kView, kGenerator };

  Items items;
  Form form = Form::kList;
  int depth = 1;
  mutable std::size_t next = 0;  // of a generator: what was not taken yet starts here
};

class Value {
 public:
  using Storage =
      std::variant<Undefined, None, bool, Int, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Namespace*,
                   std::shared_ptr<const Function>, std::shared_ptr<Loop>>;

  /// None.
  Value() : storage_(None{}) {}
  explicit Value(Storage storage) : storage_(std::move(storage)) {}

  static Value undefined(std::string why);
  static Value boolean(bool value) { return Value(Storage(std::in_place_type<bool>, value)); }
  static Value integer(Int value) { return Value(Storage(std::in_place_type<Int>, value)); }
  static Value real(double value) { return Value(Storage(std::in_place_type<double>, value)); }
  static Value text(std::string bytes);

  Kind kind() const { return static_cast<Kind>(storage_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is(Sequence::Form form) const { return is(Kind::kSequence) && sequence().form == form; }
  bool is_none() const { return is(Kind::kNone); }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_string() const { return is(Kind::kString); }

  /// bool, int or float.
  bool is_number() const { return is_integral() || is(Kind::kFloat); }
  /// bool or int, which Python treats alike.
  bool is_integral() const { return is(Kind::kBool) || is(Kind::kInt); }

  // The content; each wants a value of the right kind.
  const std::string& why() const { return *std::get<Undefined>(storage_).why; }
  bool truth() const { return std::get<bool>(storage_); }
  Int integral() const { return is(Kind::kBool) ? Int{truth()} : std::get<Int>(storage_); }
  double number() const;
  /// Valid UTF-8.
  const std::string& bytes() const {
    return *std::get<std::shared_ptr<const std::string>>(storage_);
  }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(storage_); }
  const Items& items() const { return sequence().items; }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(storage_); }
  Namespace& space() const { return *std::get<Namespace*>(storage_); }
  const Function& function() const { return *std::get<std::shared_ptr<const Function>>(storage_); }
  Loop& loop() const { return *std::get<std::shared_ptr<Loop>>(storage_); }

  /// Levels of containers, 0 for a scalar. Bounded, so that walks over values and their
  /// destruction may recurse.
  int depth() const;

  /// The name of the Python type, for messages.
  std::string_view type_name() const;

 private:
  Storage storage_;
};

/// A dictionary that keeps its order of insertion. Keys are strings, as in JSON.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  /// The value at `key`, null when absent.
  const Value* find(std::string_view key) const;

  /// Adds the entry, or replaces the value of an equal key where it stands. `key` is a string.
  void set(Value key, Value value);

  const std::vector<Entry>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  std::vector<Entry> entries_;
  // Positions; the views point into the keys' own text, which never moves. A tree: a client chooses
  // keys, and could choose such that all have one hash.
  std::map<std::string_view, std::size_t> positions_;
  int depth_ = 1;
};

/// namespace(...): the one thing that templates may change. The runtime owns all of them, so that
/// one which holds itself is no leak.
struct Namespace {
  Dict attributes;
};

}  // namespace nibble::jinja
