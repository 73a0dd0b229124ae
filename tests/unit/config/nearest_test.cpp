#include "config/nearest.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

namespace weir::config {
namespace {

constexpr std::array<std::string_view, 7> kWords = {"listen", "threads",     "url",      "max_in_flight",
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
  for (const auto& [word, expected] : table) EXPECT_EQ(nearest(word, kWords), expected) << word;
}

TEST(Nearest, IsSilentWhereNothingIsClose) {
  for (const auto* word : {"", "x", "ur", "timeout", "tls", "lsn", "slo", "hea_", "li", "dr"})
    EXPECT_EQ(nearest(word, kWords), "") << word;
  EXPECT_EQ(nearest(std::string(100'000, 'x'), kWords), "");
  EXPECT_EQ(nearest("listen", {}), "");
}

TEST(Nearest, CompletesWhatOnlyOneBeginsWith) {
  EXPECT_EQ(nearest("max", kWords), "max_in_flight");
  EXPECT_EQ(nearest("thr", kWords), "threads");
  EXPECT_EQ(nearest("HEAD", kWords), "head_time");
  constexpr std::array<std::string_view, 2> kTwo = {"client_idle_time", "client_stall_time"};
  EXPECT_EQ(nearest("client", kTwo), "");
}

TEST(Nearest, TakesTheFirstOfEquals) {
  constexpr std::array<std::string_view, 2> kTwo = {"cat", "car"};
  EXPECT_EQ(nearest("can", kTwo), "cat");
}

}  // namespace
}  // namespace weir::config
