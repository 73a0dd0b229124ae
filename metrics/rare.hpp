// A value that few owners have: it costs a pointer until it is set. It is copied deep and compared by value.
#pragma once

#include <memory>

namespace weir::metrics {

template <class Value>
class Rare {
 public:
  Rare() = default;
  Rare(const Value& value) : value_(std::make_unique<Value>(value)) {}
  Rare(const Rare& other) : value_(other.value_ ? std::make_unique<Value>(*other.value_) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  Rare& operator=(Rare other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }

  /// Returns a blank value where none is set.
  const Value& operator*() const { return value_ ? *value_ : blank; }
  const Value* operator->() const { return &**this; }
  /// Makes the value if it is not there.
  Value& make() {
    if (!value_) value_ = std::make_unique<Value>();
    return *value_;
  }
  bool operator==(const Rare& other) const { return **this == *other; }

 private:
  inline static const Value blank{};
  std::unique_ptr<Value> value_;
};

}  // namespace weir::metrics
