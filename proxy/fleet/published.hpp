// A value that one thread publishes and others read, rarely: it is kept behind a mutex and copied out.
//
// A std::atomic<std::shared_ptr> would do, but ThreadSanitizer cannot follow its lock in libstdc++ 12.
#pragma once

#include <mutex>
#include <utility>

namespace weir::proxy::fleet {

template <class T>
class Published {
 public:
  T get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void set(T value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

}  // namespace weir::proxy::fleet
