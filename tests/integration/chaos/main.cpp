// A chaos run: clients and replicas misbehave at random, settings are reloaded, replicas die and return, for so many
// seconds; then all is quiet, and every count has to be exact.
//
// Usage: chaos [--seed N] [--seconds S]
//   --seed     1 if none is given. What is drawn follows from it; what happens first depends on the machine, too.
//   --seconds  10 if none are given.
// It exits 1 if anything disagrees, and says what, and how to run it again.
#include <gtest/gtest.h>

#include <charconv>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <thread>

#include "tests/integration/chaos/clients.hpp"
#include "tests/integration/chaos/reckoning.hpp"
#include "tests/integration/chaos/town.hpp"

namespace weir::chaos {
namespace {

using Clock = integration::Clock;

std::uint64_t seed = 1;
unsigned seconds = 10;
constexpr std::size_t clients = 24;
/// Many times what weir holds at rest, and a fraction of what a run sends.
constexpr std::size_t most_memory = 192 * 1024 * 1024;
constexpr std::size_t most_shown = 20;

std::size_t descriptors_of(const integration::WeirUnderTest& weir) {
  const auto folder = "/proc/" + std::to_string(weir.process().id()) + "/fd";
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(Chaos, EndsWithEveryCountExact) {
  Town town(seed);
  auto& weir = town.weir();
  // What its start has opened is closed by then.
  static_cast<void>(weir.metrics_when("the replicas to be up", [](const integration::MetricsPage& page) {
    return page.sum("weir_replica_state", {{"state", "up"}}) >= 4;
  }));
  const auto open = descriptors_of(weir);

  Clients all(seed, weir.port(), clients);
  Dice dice(seed, "pauses");
  std::size_t memory = 0;
  for (const auto end = Clock::now() + std::chrono::seconds(seconds); Clock::now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(dice.between(5, 120)));
    town.something_happens();
    memory = std::max(memory, weir.process().resident_memory());
  }
  town.becomes_quiet();
  all.stop();
  static_cast<void>(weir.metrics_when("empty books", [](const integration::MetricsPage& page) {
    return page.sum("weir_queued_tokens") == 0 && page.sum("weir_requests_in_flight") == 0 &&
           page.sum("weir_requests_waiting") == 0;
  }));
  static_cast<void>(weir.log_lines(all.asked()));

  for (const auto& trouble : all.troubles()) ADD_FAILURE() << trouble;
  const auto wrong = disagreements(all.seen(), weir);
  for (std::size_t i = 0; i < std::min(wrong.size(), most_shown); ++i) ADD_FAILURE() << wrong[i];
  EXPECT_LE(wrong.size(), most_shown) << "disagreements; the others are not shown";

  const auto deadline = Clock::now() + integration::patience;
  while (descriptors_of(weir) > open && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(descriptors_of(weir), open) << "descriptors at rest";
  EXPECT_LT(memory, most_memory) << "bytes of resident memory";
  EXPECT_EQ(weir.output().find("internal"), std::string::npos) << weir.output();
  std::size_t complete = 0;
  for (const auto& one : all.seen()) complete += one.complete;
  EXPECT_GT(complete, all.seen().size() / 10) << "chaos is to leave something that works";
  std::cout << "seed " << seed << ": " << all.asked() << " requests, " << complete << " complete streams; "
            << town.happened() << "; at most " << memory / (1024 * 1024) << " MiB\n";
  weir.stop();
}

bool read_number(std::string_view text, auto& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0;
}

}  // namespace
}  // namespace weir::chaos

int main(int argc, char** argv) {
  using namespace weir::chaos;
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    const bool read = name == "--seed" ? read_number(value, seed) : name == "--seconds" && read_number(value, seconds);
    if (!read) {
      std::cerr << "usage: chaos [--seed N] [--seconds S]\n";
      return 2;
    }
    ++i;
  }
  const int failed = RUN_ALL_TESTS();
  if (failed != 0)
    std::cerr << "Run it again with: " << argv[0] << " --seed " << seed << " --seconds " << seconds << '\n';
  return failed;
}
