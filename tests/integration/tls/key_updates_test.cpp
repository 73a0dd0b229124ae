// Clients that change their keys without an end.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "tests/integration/peers/key_changer.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

/// Returns how long the process has computed, however busy the machine is.
std::chrono::duration<double> computed(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string word;
  long ticks = 0;
  for (int field = 1; field <= 15 && file >> word; ++field)
    if (field >= 14) ticks += std::stol(word);
  return std::chrono::duration<double>(static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

TEST(KeyUpdates, AreBrokenOffBeforeTheyCostAnything) {
  ScriptedReplica replica([](Exchange&) {});
  auto settings = pool_of({&replica});
  settings.server["tls"] =
      "{ cert = " + quoted(tls_file("local.pem")) + ", key = " + quoted(tls_file("local.key")) + " }";
  settings.server["threads"] = "1";
  WeirUnderTest weir(settings);
  Bridge to_weir(Bridge::Kind::plain_to_tls, weir.port());
  HttpClient other(to_weir.port());
  EXPECT_EQ(other.exchange(get("/health"), "GET").status, 200u);
  constexpr std::size_t changes = 60'000;
  KeyChanger first(weir.port(), changes), second(weir.port(), changes);
  const auto before = computed(weir.process().id());
  EXPECT_TRUE(first.is_broken_off());
  EXPECT_TRUE(second.is_broken_off());
  EXPECT_EQ(other.exchange(get("/health"), "GET").status, 200u);
  EXPECT_LT((computed(weir.process().id()) - before).count(), 0.3) << "seconds";
}

}  // namespace
}  // namespace weir::integration
