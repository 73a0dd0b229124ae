// SipHash-1-3 (Aumasson and Bernstein 2012), as Python, Rust and Ruby hash with: a keyed hash of bytes that come in
// pieces. Whoever does not know the key can neither find two texts with one hash nor read anything from a hash. Header
// only; includes no other file of weir.
#pragma once

#include <algorithm>
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

// A keyed hash of bytes that come in pieces, for tables: two texts that were chosen without the key have one hash with
// a probability of (n + 60) / 2^64 at most, for texts of n bytes. A prompt takes half of SipHash's instructions.
//
// Groups of four words of 7 bytes are paired products of words and key (the pseudo-dot-product of Winograd), and the
// groups are the coefficients of a polynomial at a secret point (Carter and Wegman 1979), all modulo 2^61 - 1.
//
// Whoever sees hashes of texts that he knows can find the key, unlike with SipHash: a hash must not leave the process.
// Header only.

struct UniversalKey {
  explicit UniversalKey(const SipKey& secret) {
    SipHash hash(secret);
    for (std::uint64_t* part : {&words[0], &words[1], &words[2], &words[3], &point}) {
      hash.add(std::uint64_t{0});
      *part = hash.value() >> 4;
    }
  }
  std::array<std::uint64_t, 4> words;  // Below 2^60, as the point.
  std::uint64_t point;
};

/// The key must outlive the hash.
class UniversalHash {
 public:
  explicit UniversalHash(const UniversalKey& key) : key_(&key) {}

  /// Any cut of the bytes gives the same hash.
  void add(std::string_view bytes) {
    if (bytes.size() > short_text || begun_ + bytes.size() >= group) return add_groups(bytes);
    copy_short(unfinished_.data() + begun_, bytes);
    begun_ += bytes.size();
    size_ += bytes.size();
  }
  /// Adds the number's eight bytes.
  void add(std::uint64_t number) {
    std::array<char, sizeof number> bytes;
    std::memcpy(bytes.data(), &number, sizeof number);
    add({bytes.data(), bytes.size()});
  }
  /// Returns the hash of the bytes so far. More may follow.
  std::uint64_t value() const { return mixed(with(with(sum_, products(unfinished_.data())), size_)); }

  /// Mixes all bits of a number into all others (MurmurHash3's finaliser). Different numbers stay different.
  static constexpr std::uint64_t mixed(std::uint64_t number) {
    number = (number ^ number >> 33) * 0xff51afd7ed558ccd;
    number = (number ^ number >> 33) * 0xc4ceb9fe1a85ec53;
    return number ^ number >> 33;
  }

 private:
  __extension__ using Wide = unsigned __int128;

  static constexpr std::size_t word = 7, group = 4 * word, short_text = 16;
  static constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;

  /// Two loads that overlap are a fraction of a call of memcpy().
  static void copy_short(char* to, std::string_view from) {
    const auto copy_two = [&]<class Word>(Word) {
      std::memcpy(to, from.data(), sizeof(Word));
      std::memcpy(to + from.size() - sizeof(Word), from.data() + from.size() - sizeof(Word), sizeof(Word));
    };
    if (from.size() >= sizeof(std::uint64_t)) return copy_two(std::uint64_t{});
    if (from.size() >= sizeof(std::uint32_t)) return copy_two(std::uint32_t{});
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = from[i];
  }
  void add_groups(std::string_view bytes) {
    size_ += bytes.size();
    if (begun_ > 0) {
      const std::size_t first = std::min(bytes.size(), group - begun_);
      std::memcpy(unfinished_.data() + begun_, bytes.data(), first);
      begun_ += first;
      if (begun_ < group) return;
      sum_ = with(sum_, products(unfinished_.data()));
      bytes.remove_prefix(first);
    }
    std::uint64_t sum = sum_;  // A copy stays in a register: bytes may alias members.
    const char* at = bytes.data();
    const char* const end = at + bytes.size();
    for (; static_cast<std::size_t>(end - at) >= group; at += group) sum = with(sum, products(at));
    sum_ = sum;
    begun_ = static_cast<std::size_t>(end - at);
    unfinished_ = {};
    std::memcpy(unfinished_.data(), at, begun_);
  }
  /// Returns a number that is equal modulo the prime, of `wide` below 2^125.
  static std::uint64_t reduced(Wide wide) {
    return (static_cast<std::uint64_t>(wide) & prime) + static_cast<std::uint64_t>(wide >> 61);
  }
  /// Returns the polynomial with one more coefficient, which is below 2^62. All sums lie below 2^64.
  std::uint64_t with(std::uint64_t sum, std::uint64_t coefficient) const {
    return reduced(Wide{sum + coefficient} * key_->point);
  }
  std::uint64_t products(const char* at) const {
    const auto& key = key_->words;
    return reduced(Wide{word_at(at) + key[0]} * (word_at(at + word) + key[1]) +
                   Wide{word_at(at + 2 * word) + key[2]} * (last_word_at(at + 3 * word) + key[3]));
  }
  static std::uint64_t word_at(const char* at) { return eight_bytes(at) & ((std::uint64_t{1} << 56) - 1); }
  static std::uint64_t last_word_at(const char* at) { return eight_bytes(at - 1) >> 8; }
  static std::uint64_t eight_bytes(const char* at) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof bytes);
    return bytes;
  }

  const UniversalKey* key_;
  std::uint64_t sum_ = 0;
  std::uint64_t size_ = 0;
  std::size_t begun_ = 0;
  std::array<char, group> unfinished_{};  // The bytes that have begun a group, with zeros behind them.
};

inline std::uint64_t universal_hash(const UniversalKey& key, std::string_view bytes) {
  UniversalHash hash(key);
  hash.add(bytes);
  return hash.value();
}

}  // namespace weir::metrics
