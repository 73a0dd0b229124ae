#include "proxy/compare/read_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

namespace weir::proxy::compare {
namespace {

constexpr std::int64_t hour = 3'600'000'000, day = 24 * hour, now = 1'795'244'400'000'000;

class Times {
 public:
  Times& spread(std::uint64_t requests, std::int64_t from, std::int64_t length) {
    for (std::uint64_t i = 0; i < requests; ++i) {
      const auto us = from + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(length));
      all_.push_back(us);
      times_.add(us);
    }
    return *this;
  }
  std::uint64_t strays() const {
    const auto taken = times_.taken();
    const auto within = times_.within(std::span(&taken, 1));
    std::uint64_t inside = 0;
    std::int64_t first = INT64_MAX, last = INT64_MIN;
    for (const auto us : all_) {
      if (us < taken.first_us || us > taken.last_us) continue;
      ++inside;
      first = std::min(first, us);
      last = std::max(last, us);
    }
    EXPECT_EQ(within.requests, inside);
    EXPECT_EQ(taken.requests, inside);
    EXPECT_EQ(within.first_us, first);
    EXPECT_EQ(within.last_us, last);
    return all_.size() - inside;
  }

 private:
  std::mt19937_64 random_{4};
  std::vector<std::int64_t> all_;
  ReadTimes times_;
};

TEST(ReadTimes, FewLinesFarAwayAreStrays) {
  EXPECT_EQ(Times().spread(1000, now, 1).spread(1, -5, 1).strays(), 1u) << "before 1970";
  EXPECT_EQ(Times().spread(1000, now, hour / 2).spread(3, 0, hour).spread(2, now + 4000 * day, hour).strays(), 5u);
  EXPECT_EQ(Times().spread(100'000, now, day).spread(100, 0, hour).strays(), 100u) << "a thousandth";
  EXPECT_EQ(Times().spread(100'000, now, day).spread(150, 0, hour).strays(), 0u) << "too many to be strays";
  EXPECT_EQ(Times().spread(8, now, hour).spread(1, 0, 1).strays(), 1u);
}

TEST(ReadTimes, RunsThatLieFarApartAreNone) {
  EXPECT_EQ(Times().spread(1000, now - 30 * day, hour).spread(1000, now, hour).strays(), 0u);
  EXPECT_EQ(Times().spread(100, now - 30 * day, hour).spread(5000, now, hour).strays(), 0u);
  EXPECT_EQ(Times().spread(1, now - 30 * day, 1).spread(1, now, 1).strays(), 0u) << "two lines are no bulk";
  EXPECT_EQ(Times().spread(5, now - 5 * hour, hour).spread(1000, now, hour).strays(), 0u) << "near enough";
  Times weeks;
  for (int i = 0; i < 8; ++i) weeks.spread(20, now + i * 7 * day, hour);
  EXPECT_EQ(weeks.strays(), 0u);
  EXPECT_EQ(Times().strays(), 0u);
}

}  // namespace
}  // namespace weir::proxy::compare
