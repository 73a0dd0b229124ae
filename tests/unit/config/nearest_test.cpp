#include "config/nearest.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

namespace weir::config {
namespace {

constexpr std::array<std::string_view, 7> known_words = {"listen", "threads",     "url",      "max_in_flight",
                                                         "drain",  "drain_delay", "head_time"};

TEST(Nearest, FindsWhatWasMeant) {
  const std::pair<const char*, const char*> table[] = {{"listen", "listen"},
                                                       {"listne", "listen"},
                                                       {"lisen", "listen"},
                                                       {"llisten", "listen"},
                                                       {"lisden", "listen"},
                                                       {"Listen", "listen"},
                                                       {"ulr", "url"},
                                                       {"urls", "url"},
                                                       {"head_tiem", "head_time"},
                                                       {"max-in-flight", "max_in_flight"},
                                                       {"max_inflight", "max_in_flight"},
                                                       {"MAX-IN-FLIGHT", "max_in_flight"},
                                                       {"dain", "drain"}};
  for (const auto& [word, expected] : table) EXPECT_EQ(nearest(word, known_words), expected) << word;
}

TEST(Nearest, IsSilentWhereNothingIsClose) {
  for (const auto* word : {"", "x", "ur", "timeout", "tls", "lsn", "slo", "hea_", "li", "dr"})
    EXPECT_EQ(nearest(word, known_words), "") << word;
  EXPECT_EQ(nearest(std::string(100'000, 'x'), known_words), "");
  EXPECT_EQ(nearest("listen", {}), "");
}

TEST(Nearest, CompletesWhatOnlyOneBeginsWith) {
  EXPECT_EQ(nearest("max", known_words), "max_in_flight");
  EXPECT_EQ(nearest("thr", known_words), "threads");
  EXPECT_EQ(nearest("HEAD", known_words), "head_time");
  constexpr std::array<std::string_view, 2> two = {"client_idle_time", "client_stall_time"};
  EXPECT_EQ(nearest("client", two), "");
}

TEST(Nearest, TakesTheFirstOfEquals) {
  constexpr std::array<std::string_view, 2> two = {"cat", "car"};
  EXPECT_EQ(nearest("can", two), "cat");
}

}  // namespace
}  // namespace weir::config
