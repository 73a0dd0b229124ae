#include "metrics/sip_hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

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

}  // namespace
}  // namespace weir::metrics
