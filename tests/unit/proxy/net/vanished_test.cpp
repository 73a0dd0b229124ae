#include "proxy/net/vanished.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace weir::proxy::net {
namespace {

TEST(Vanished, IsWhoWasAskedTwiceAndHasBeenSilentFor30Seconds) {
  const struct {
    const char* what;
    std::uint32_t silent_for_ms;
    std::uint8_t retransmits, probes;
    bool vanished;
  } rows[]{
      {"a client that acknowledges what it gets", 5, 0, 0, false},
      {"a client that has nothing to acknowledge", 300'000, 0, 0, false},
      {"a link that is down for a while", 29'999, 7, 0, false},
      {"a link that stays down", 30'000, 7, 0, true},
      {"keepalive probes without an answer", 30'000, 0, 3, true},
      {"keepalive probes that begin", 20'000, 0, 2, false},
      {"a closed window whose next probe has just gone out", 120'000, 0, 1, false},
      {"a closed window, and probes without an answer", 31'000, 0, 2, true},
      {"a packet that was lost behind a long silence", 120'000, 1, 0, false},
  };
  for (const auto& row : rows) {
    tcp_info known{};
    known.tcpi_last_ack_recv = row.silent_for_ms;
    known.tcpi_retransmits = row.retransmits;
    known.tcpi_probes = row.probes;
    EXPECT_EQ(has_vanished(known), row.vanished) << row.what;
  }
}

TEST(Vanished, IsNobodyBehindWhatIsNoSocketOfTcp) { EXPECT_FALSE(has_vanished(-1)); }

}  // namespace
}  // namespace weir::proxy::net
