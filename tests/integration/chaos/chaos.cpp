#include "tests/integration/chaos/chaos.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "tests/integration/chaos/clients.hpp"
#include "tests/integration/chaos/reckoning.hpp"
#include "tests/integration/chaos/town.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::chaos {
namespace {

using Clock = integration::Clock;

constexpr std::size_t clients = 24;
/// Many times what weir holds at rest, and a fraction of what a run sends.
constexpr std::size_t most_memory = 192 * 1024 * 1024;
constexpr std::size_t most_shown = 20;

enum class Third : std::uint8_t { steady, changing, guarded };

/// Waits for the lines of primaries and shadows.
void wait_for_lines(const integration::WeirUnderTest& weir, std::size_t primaries) {
  integration::look_until("the lines of all requests", [&] {
    const auto shadows = static_cast<std::size_t>(weir.metrics().sum("weir_shadow_requests_total"));
    const auto log = weir.log_text();
    return integration::times_in(log, "\"role\":\"primary\"") >= primaries &&
           integration::times_in(log, "\"role\":\"shadow\"") >= shadows;
  });
}

Reckoning reckon_at_rest(const Town& town, const std::vector<Seen>& seen) {
  const auto& weir = town.weir();
  static_cast<void>(weir.metrics_when("empty books", [&](const integration::MetricsPage& page) {
    const auto is_there = [&](const std::string& gone) { return page.has("weir_requests_total", {{"replica", gone}}); };
    return integration::full_book(page).empty() && std::ranges::none_of(town.names().gone(), is_there);
  }));
  wait_for_lines(weir, seen.size());
  auto reckoning = reckon(seen, town.handshakes(), town.names(), weir);
  const auto& wrong = reckoning.disagreements;
  for (std::size_t i = 0; i < std::min(wrong.size(), most_shown); ++i) ADD_FAILURE() << wrong[i];
  EXPECT_LE(wrong.size(), most_shown) << "disagreements; the others are not shown";
  return reckoning;
}

/// Checks that a request under way at the end has its line, and that its count outlives every replica.
void ends_under_way(Town& town, std::uint64_t seed) {
  Clients all(seed, town.door(), clients);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  town.weir().process().send(SIGTERM);
  town.weir().ends();
  all.stop();
  town.weir().expect_last_words();
}

void play(Town& town, std::uint64_t seed, std::uint64_t seconds) {
  auto& weir = town.weir();
  // Descriptors that weir's start has opened are closed by then.
  static_cast<void>(weir.metrics_when("the replicas to be up", [](const integration::MetricsPage& page) {
    return page.sum("weir_replica_state", {{"state", "up"}}) >= 4;
  }));
  const auto open = weir.process().open_descriptors();

  Dice dice(seed, "pauses");
  std::size_t memory = 0;
  std::vector<Seen> seen;
  Reckoning all_told;
  for (const auto third : {Third::steady, Third::changing, Third::guarded}) {
    if (third == Third::changing) town.changes_its_replicas();
    if (third == Third::guarded) town.guards_its_door();
    town.becomes_wild();
    Clients all(seed, town.door(), clients);
    for (const auto end = Clock::now() + std::chrono::milliseconds(1000 * seconds / 3); Clock::now() < end;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(dice.between(5, 120)));
      town.something_happens();
      memory = std::max(memory, weir.process().resident_memory());
    }
    town.becomes_quiet();
    all.stop();
    seen.insert(seen.end(), all.seen().begin(), all.seen().end());
    for (const auto& trouble : all.troubles()) ADD_FAILURE() << trouble;
    all_told = reckon_at_rest(town, seen);
  }

  const auto deadline = Clock::now() + integration::patience;
  auto still_open = weir.process().open_descriptors();
  for (; still_open > open && Clock::now() < deadline; still_open = weir.process().open_descriptors())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(still_open, open) << "descriptors at rest";
  EXPECT_LT(memory, most_memory) << "bytes of resident memory";
  EXPECT_EQ(weir.output().find("internal"), std::string::npos) << weir.output();
  std::size_t complete = 0;
  for (const auto& one : seen) complete += one.complete;
  EXPECT_GT(complete, seen.size() / 20) << "chaos is to leave something that works";
  std::cout << "seed " << seed << ": " << seen.size() << " requests, " << complete << " complete streams, "
            << all_told.bypassed << " not read, " << all_told.without_memory << " refused for want of memory, "
            << weir.metrics().sum("weir_limit_hits_total", {{"limit", "client_stall"}}) << " given up; "
            << town.happened() << "; at most " << memory / (1024 * 1024) << " MiB\n";
  ends_under_way(town, seed);
}

}  // namespace

bool every_count_is_exact(std::uint64_t seed, std::uint64_t seconds) {
  Town town(seed);
  // weir says what it has said only if something has failed by its end.
  try {
    play(town, seed, seconds);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  const bool failed = ::testing::Test::HasFailure();
  if (failed) std::cout << "again with: model --chaos --seed " << seed << " --seconds " << seconds << '\n';
  return !failed;
}

}  // namespace weir::chaos
