#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "metrics/hash.hpp"

namespace weir::metrics {
namespace {

constexpr SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::string counting(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i);
  return text;
}

// By a program of another language that gives what Python's own hash() gives with PYTHONHASHSEED=0.
TEST(SipHash, GivesTheValuesOfOtherPrograms) {
  EXPECT_EQ(sip_hash(key, ""), 0xabac0158050fc4dc);
  EXPECT_EQ(sip_hash(key, counting(1)), 0xc9f49bf37d57ca93);
  EXPECT_EQ(sip_hash(key, counting(8)), 0x369095118d299a8e);
  EXPECT_EQ(sip_hash(key, counting(15)), 0xd320d86d2a519956);
  EXPECT_EQ(sip_hash({0, 0}, "abcdefghij"), 0xf47c264806c40ff1) << "hash(b'abcdefghij')";
}

TEST(SipHash, DependsOnEachByteOnTheLengthAndOnTheKey) {
  std::set<std::uint64_t> seen;
  std::size_t made = 0;
  const auto add = [&](const std::string& bytes) {
    seen.insert(sip_hash(key, bytes));
    ++made;
  };
  for (std::size_t size = 0; size < 40; ++size) {
    add(std::string(size, '\0'));
    for (std::size_t i = 0; i < size; ++i) {
      std::string bytes(size, '\0');
      bytes[i] = 1;
      add(bytes);
    }
  }
  EXPECT_EQ(seen.size(), made);
  EXPECT_NE(sip_hash({1, 2}, "a"), sip_hash({1, 3}, "a"));
  EXPECT_NE(sip_hash({1, 2}, "a"), sip_hash({0, 2}, "a"));
}

TEST(SipHash, IsTheSameHoweverTheBytesAreCut) {
  const std::string bytes = counting(41);
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      SipHash hash(key);
      hash.add(std::string_view(bytes).substr(0, first));
      ASSERT_EQ(hash.value(), sip_hash(key, bytes.substr(0, first)));
      hash.add(std::string_view(bytes).substr(first, second - first));
      hash.add(std::string_view(bytes).substr(second));
      ASSERT_EQ(hash.value(), sip_hash(key, bytes)) << first << ' ' << second;
      ASSERT_EQ(hash.bytes(), bytes.size());
    }
  }
}

TEST(SipHash, TakesANumberAsEightBytesBehindAnyBytes) {
  for (std::size_t before = 0; before < 20; ++before) {
    for (std::size_t behind = 0; behind < 20; ++behind) {
      SipHash number(key), bytes(key);
      number.add(counting(before));
      number.add(std::uint64_t{0x8706050403020100});
      number.add(counting(behind));
      bytes.add(counting(before) + counting(7) + '\x87' + counting(behind));
      ASSERT_EQ(number.value(), bytes.value()) << before << ' ' << behind;
      ASSERT_EQ(number.bytes(), bytes.bytes());
    }
  }
}

__extension__ using Wide = unsigned __int128;
using Random = std::mt19937_64;

constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;
const UniversalKey universal_key{{0x0706050403020100, 0x0f0e0d0c0b0a0908}};

std::string random_bytes(Random& random, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::uint64_t times(std::uint64_t a, std::uint64_t b) { return static_cast<std::uint64_t>(Wide{a} * b % prime); }

/// The polynomial at the key's point by its definition, each sum and product modulo the prime.
std::uint64_t polynomial(const UniversalKey& secret, std::string bytes) {
  const std::uint64_t size = bytes.size();
  bytes.resize((size / 28 + 1) * 28);
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 28) {
    std::array<std::uint64_t, 4> words{};
    for (std::size_t i = 0; i < 28; ++i)
      words[i / 7] |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * (i % 7));
    std::uint64_t pairs = 0;
    for (std::size_t i = 0; i < 4; i += 2)
      pairs =
          (pairs + times((words[i] + secret.words[i]) % prime, (words[i + 1] + secret.words[i + 1]) % prime)) % prime;
    sum = times((sum + pairs) % prime, secret.point % prime);
  }
  return times((sum + size) % prime, secret.point % prime);
}

/// A hash is equal modulo the prime to the polynomial, before its bits are mixed.
bool is_of(std::uint64_t hash, std::uint64_t residue) {
  for (unsigned i = 0; i < 8; ++i)
    if (UniversalHash::mixed(residue + i * prime) == hash) return true;
  return false;
}

TEST(UniversalHash, IsThePolynomialOfItsDefinition) {
  Random random(1);
  for (std::size_t size = 0; size < 300; ++size) {
    const UniversalKey secret({random(), random()});
    const std::string bytes = size % 3 == 0 ? std::string(size, '\xFF') : random_bytes(random, size);
    EXPECT_TRUE(is_of(universal_hash(secret, bytes), polynomial(secret, bytes))) << size;
  }
}

TEST(UniversalHash, IsThePolynomialForTheGreatestNumbersToo) {
  UniversalKey greatest({1, 2});
  for (std::uint64_t* part :
       {&greatest.words[0], &greatest.words[1], &greatest.words[2], &greatest.words[3], &greatest.point})
    *part = (std::uint64_t{1} << 60) - 1;
  for (const std::size_t size : {std::size_t{27}, std::size_t{28}, std::size_t{100'000}}) {
    const std::string bytes(size, '\xFF');
    EXPECT_TRUE(is_of(universal_hash(greatest, bytes), polynomial(greatest, bytes))) << size;
  }
}

TEST(UniversalHash, DependsOnEachByteOnTheLengthAndOnTheKey) {
  std::set<std::uint64_t> seen;
  std::size_t made = 0;
  const auto add = [&](const std::string& bytes) {
    seen.insert(universal_hash(universal_key, bytes));
    ++made;
  };
  for (std::size_t size = 0; size < 90; ++size) {
    add(std::string(size, '\0'));
    for (std::size_t i = 0; i < size; ++i) {
      std::string bytes(size, '\0');
      for (const char bit : {'\x01', '\x80'}) {
        bytes[i] = bit;
        add(bytes);
      }
    }
  }
  EXPECT_EQ(seen.size(), made);
  EXPECT_NE(universal_hash(UniversalKey({1, 2}), "a"), universal_hash(UniversalKey({1, 3}), "a"));
  EXPECT_NE(universal_hash(UniversalKey({1, 2}), "a"), universal_hash(UniversalKey({0, 2}), "a"));
}

/// Words that differ by the prime, and words and groups that changed places: equal for a polynomial that is made
/// carelessly.
TEST(UniversalHash, TellsTextsApartThatAreAlikeToArithmetic) {
  Random random(2);
  for (int i = 0; i < 200; ++i) {
    const std::string bytes = random_bytes(random, 120);
    std::set<std::uint64_t> seen{universal_hash(universal_key, bytes)};
    std::size_t made = 1;
    for (const std::size_t word : {std::size_t{7}, std::size_t{14}, std::size_t{28}, std::size_t{56}}) {
      std::string other = bytes;
      std::swap_ranges(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(word),
                       other.begin() + static_cast<std::ptrdiff_t>(word));
      seen.insert(universal_hash(universal_key, other));
      ++made;
    }
    for (std::size_t at = 0; at + 8 <= bytes.size(); ++at) {
      std::string other = bytes;
      std::uint64_t number = 0;
      std::memcpy(&number, other.data() + at, 8);
      number += prime;
      std::memcpy(other.data() + at, &number, 8);
      seen.insert(universal_hash(universal_key, other));
      ++made;
    }
    ASSERT_EQ(seen.size(), made);
  }
}

TEST(UniversalHash, IsTheSameHoweverTheBytesAreCut) {
  Random random(3);
  const std::string bytes = random_bytes(random, 90);
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      UniversalHash hash(universal_key);
      hash.add(std::string_view(bytes).substr(0, first));
      ASSERT_EQ(hash.value(), universal_hash(universal_key, bytes.substr(0, first)));
      hash.add(std::string_view(bytes).substr(first, second - first));
      hash.add(std::string_view(bytes).substr(second));
      ASSERT_EQ(hash.value(), universal_hash(universal_key, bytes)) << first << ' ' << second;
    }
  }
}

TEST(UniversalHash, TakesANumberAsEightBytes) {
  for (std::size_t before = 0; before < 60; ++before) {
    UniversalHash number(universal_key), bytes(universal_key);
    number.add(std::string(before, 'a'));
    number.add(std::uint64_t{0x8706050403020100});
    bytes.add(std::string(before, 'a') + std::string("\x00\x01\x02\x03\x04\x05\x06\x87", 8));
    ASSERT_EQ(number.value(), bytes.value()) << before;
  }
}

}  // namespace
}  // namespace weir::metrics
