// SipHash-1-3 (Aumasson and Bernstein 2012), as Python, Rust and Ruby hash with: a keyed hash of bytes that come in
// pieces. Whoever does not know the key can neither find two texts with one hash nor read anything from a hash. Header
// only; includes no other file of weir.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir::metrics {

using SipKey = std::array<std::uint64_t, 2>;

class SipHash {
 public:
  explicit SipHash(const SipKey& key)
      : state_{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
               key[1] ^ 0x7465646279746573} {}

  /// Any cut of the bytes gives the same hash. It costs about a quarter of a nanosecond a byte.
  void add(std::string_view bytes) {
    const std::size_t begun = size_ % word_size;
    size_ += bytes.size();
    if (begun > 0) {
      const std::string_view first = bytes.substr(0, word_size - begun);
      unfinished_ |= word_of(first) << (8 * begun);
      if (begun + first.size() < word_size) return;
      state_.take(unfinished_);
      bytes.remove_prefix(first.size());
    }
    const char* at = bytes.data();
    const char* const end = at + (bytes.size() - bytes.size() % word_size);
    State state = state_;  // A copy stays in registers: bytes may alias members.
    for (; at != end; at += word_size) state.take(whole_word(at));
    state_ = state;
    unfinished_ = word_of({at, bytes.size() % word_size});
  }
  /// Adds the number's eight bytes, the lowest first.
  void add(std::uint64_t number) {
    const std::size_t begun = 8 * (size_ % word_size);
    size_ += word_size;
    state_.take(unfinished_ | number << begun);
    unfinished_ = begun > 0 ? number >> (64 - begun) : 0;
  }
  /// Returns the hash of the bytes so far. More may follow.
  std::uint64_t value() const {
    State end = state_;
    end.take(unfinished_ | size_ << 56);
    end.v2 ^= 0xff;
    for (int i = 0; i < 3; ++i) end.round();
    return end.v0 ^ end.v1 ^ end.v2 ^ end.v3;
  }
  std::uint64_t bytes() const { return size_; }

 private:
  static constexpr std::size_t word_size = 8;

  /// The state, in the names of the paper.
  struct State {
    void round() {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
    void take(std::uint64_t word) {
      v3 ^= word;
      round();
      v0 ^= word;
    }
    std::uint64_t v0, v1, v2, v3;
  };

  /// Reads eight bytes, the lowest first.
  static std::uint64_t whole_word(const char* bytes) {
    if constexpr (std::endian::native != std::endian::little) return word_of({bytes, word_size});
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, word_size);
    return word;
  }
  /// Reads up to eight bytes, the lowest first.
  static std::uint64_t word_of(std::string_view bytes) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return word;
  }

  State state_;
  std::uint64_t unfinished_ = 0;  // The bytes behind the last whole word.
  std::uint64_t size_ = 0;
};

inline std::uint64_t sip_hash(const SipKey& key, std::string_view bytes) {
  SipHash hash(key);
  hash.add(bytes);
  return hash.value();
}

}  // namespace weir::metrics
