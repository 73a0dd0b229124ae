// SipHash-2-4 (Aumasson and Bernstein 2012): a keyed hash of bytes that come in pieces. Whoever does not know the key
// can neither find two texts with one hash nor read anything from a hash. Header only; includes no other file of weir.
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
      : v0_(key[0] ^ 0x736f6d6570736575),
        v1_(key[1] ^ 0x646f72616e646f6d),
        v2_(key[0] ^ 0x6c7967656e657261),
        v3_(key[1] ^ 0x7465646279746573) {}

  /// Any cut of the bytes gives the same hash. It costs about half a nanosecond a byte.
  void add(std::string_view bytes) {
    const std::size_t begun = size_ % word_size;
    size_ += bytes.size();
    if (begun > 0) {
      const std::string_view first = bytes.substr(0, word_size - begun);
      unfinished_ |= word_of(first) << (8 * begun);
      if (begun + first.size() < word_size) return;
      take(unfinished_);
      bytes.remove_prefix(first.size());
    }
    for (; bytes.size() >= word_size; bytes.remove_prefix(word_size)) take(word_of(bytes.substr(0, word_size)));
    unfinished_ = word_of(bytes);
  }
  /// Adds the number's eight bytes, the lowest first.
  void add(std::uint64_t number) {
    const std::size_t begun = 8 * (size_ % word_size);
    size_ += word_size;
    take(unfinished_ | number << begun);
    unfinished_ = begun > 0 ? number >> (64 - begun) : 0;
  }
  /// Returns the hash of the bytes so far. More may follow.
  std::uint64_t value() const {
    SipHash end = *this;
    end.take(unfinished_ | size_ << 56);
    end.v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) end.round();
    return end.v0_ ^ end.v1_ ^ end.v2_ ^ end.v3_;
  }
  std::uint64_t bytes() const { return size_; }

 private:
  static constexpr std::size_t word_size = 8;

  /// Reads up to eight bytes, the lowest first.
  static std::uint64_t word_of(std::string_view bytes) {
    std::uint64_t word = 0;
    if (std::endian::native == std::endian::little && bytes.size() == word_size) {
      std::memcpy(&word, bytes.data(), word_size);
      return word;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i)
      word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return word;
  }
  void round() {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_;
    v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }
  void take(std::uint64_t word) {
    v3_ ^= word;
    round();
    round();
    v0_ ^= word;
  }

  std::uint64_t v0_, v1_, v2_, v3_;  // The state, in the names of the paper.
  std::uint64_t unfinished_ = 0;     // The bytes behind the last whole word.
  std::uint64_t size_ = 0;
};

inline std::uint64_t sip_hash(const SipKey& key, std::string_view bytes) {
  SipHash hash(key);
  hash.add(bytes);
  return hash.value();
}

}  // namespace weir::metrics
