// The last answers of a replica: which share of them was 4xx. A Pool owns it and calls it under its mutex.
#pragma once

#include <bitset>
#include <cstddef>

namespace weir::balancer {

class AnswerWindow {
 public:
  static constexpr std::size_t size = 20;

  void add(bool client_error) {
    last_ = (last_ << 1) | std::bitset<size>(client_error ? 1 : 0);
    if (answers_ < size) ++answers_;
  }
  bool full() const { return answers_ == size; }
  std::size_t answers() const { return answers_; }
  std::size_t client_errors() const { return last_.count(); }
  void clear() { *this = {}; }

 private:
  std::bitset<size> last_;
  std::size_t answers_ = 0;
};

}  // namespace weir::balancer
