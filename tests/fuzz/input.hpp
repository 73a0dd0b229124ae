// An input of a fuzzer: a few bytes that choose, and a body that is fed in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace weir::fuzz {

/// Takes the bytes of an input from its front; gives 0 when there are no more.
class Input {
 public:
  Input(const std::uint8_t* bytes, std::size_t size) : rest_(reinterpret_cast<const char*>(bytes), size) {}

  unsigned take() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// Cuts a body where an input wants it: into pieces of pseudo-random size up to a power of two. One byte each chooses
/// the power and the seed.
class Cuts {
 public:
  Cuts(unsigned seed, unsigned size) : state_(seed * 2654435761U + 1), largest_(1U << size % 14) {}

  std::size_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return 1 + state_ % largest_;
  }

 private:
  std::uint32_t state_;
  std::uint32_t largest_;
};

/// Feeds the body in pieces of the sizes that `next_size` says.
template <typename NextSize>
std::vector<std::string_view> pieces(std::string_view body, NextSize next_size) {
  std::vector<std::string_view> all;
  while (!body.empty()) {
    const std::size_t size = std::min(body.size(), next_size());
    all.push_back(body.substr(0, size));
    body.remove_prefix(size);
  }
  return all;
}

/// Aborts unless `holds`. `what` names the rule that was broken.
inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken rule: %s\n", what);
  std::abort();
}

}  // namespace weir::fuzz
