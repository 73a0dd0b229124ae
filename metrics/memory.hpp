// Memory for an object that each request needs once and soon lets go: a thread keeps the memory of a few for the next
// ones. An object of more than about 1 kB, which malloc() does not keep by the thread, costs some 300 instructions
// without it. Header only; includes no other file of weir.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace weir::metrics {

/// `Object` derives from it and is made by `new`. It may be deleted on another thread, which then keeps its memory.
template <class Object>
class Recycled {
 public:
  static constexpr std::size_t most_kept = 16;  ///< Requests of as many connections may end in one turn of a loop.

  static void* operator new(std::size_t size) {
    const bool is_kept = kept_.count > 0 && kept_.count <= most_kept;
    return is_kept ? kept_.memory[--kept_.count] : ::operator new(size);
  }
  static void operator delete(void* memory) {
    static_assert(alignof(Object) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (kept_.count >= most_kept) return ::operator delete(memory);
    kept_.memory[kept_.count++] = memory;
  }

 private:
  struct Kept {
    std::array<void*, most_kept> memory{};
    std::size_t count = 0;
    ~Kept() {
      while (count > 0) ::operator delete(memory[--count]);
      count = most_kept + 1;  // Nothing is kept any more, nor taken.
    }
  };
  static thread_local constinit inline Kept kept_;
};

// Prefetches memory into the cache before it is needed. It is a hint: nothing is read, and any address is allowed.

inline constexpr std::size_t cache_line = 64;

inline void prefetch(const void* from, std::size_t size) {
  // The address is computed with integers, because an empty vector's address is null and null plus an offset is
  // undefined.
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  for (std::size_t at = 0; at < size; at += cache_line) __builtin_prefetch(reinterpret_cast<const void*>(begin + at));
}

inline void prefetch(const void* from, const void* to) {
  prefetch(from, static_cast<std::size_t>(static_cast<const char*>(to) - static_cast<const char*>(from)));
}

template <class T>
void prefetch(const T& object) {
  prefetch(&object, sizeof object);
}

// A value that few owners have: it costs a pointer until it is set. It is copied deep and compared by value.

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
