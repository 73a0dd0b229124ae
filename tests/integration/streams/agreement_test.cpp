// Three programs see the same streams and must agree: the simulated replica that made them, weir in the middle, and
// the load that received them.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>
#include <thread>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

constexpr std::size_t streams = 40;
// On a quiet machine all three are within 1 ms. A first token waits once for each process that is kept from the CPU, so
// its tolerance is wider, and still far below a step of the engine (18 ms), by which a wrong definition would be off.
constexpr double ttft_tolerance = 0.005;
constexpr double tpot_tolerance = 0.002;
constexpr double itl_tolerance = 0.0005;  // The means over all streams may differ by it.

double median(std::vector<double> values) {
  if (values.empty()) throw std::runtime_error("no values to take the median of");
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// `weir-lab sim` on a port of its own, ready.
class SimulatedReplica {
 public:
  SimulatedReplica(unsigned seed, unsigned speculative_tokens)
      : port_(free_port()),
        process_(
            {WEIR_LAB_PROGRAM, "sim", "--listen", "127.0.0.1:" + std::to_string(port_), "--seed", std::to_string(seed),
             "--speculative-tokens", std::to_string(speculative_tokens), "--log", log().string()},
            directory_.path() / "output") {
    for (const auto deadline = Clock::now() + patience; !healthy();) {
      const bool ended = process_.wait(std::chrono::milliseconds(10)).has_value();
      if (ended || Clock::now() > deadline)
        throw std::runtime_error("the simulated replica does not start: " + read_file(directory_.path() / "output"));
    }
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::filesystem::path log() const { return directory_.path() / "truth.jsonl"; }

 private:
  bool healthy() const {
    try {
      return fetch(port_, get("/health"), "GET").status == 200;
    } catch (const PeerGone&) {
      return false;
    }
  }

  TemporaryDirectory directory_;
  std::uint16_t port_;
  Process process_;
};

struct Seen {
  std::vector<double> ttft, tpot;
  double decoding = 0, after_the_first = 0;  ///< Seconds from first to last token, and tokens, of all streams.
};

void add_truth(Seen& seen, const std::string& log) {
  std::istringstream lines(log);
  for (std::string text; std::getline(lines, text);) {
    const auto line = boost::json::parse(text).as_object();
    const auto ns = [&](const char* name) { return line.at(name).to_number<double>(); };
    EXPECT_EQ(member(line, "status"), "finished");
    seen.ttft.push_back((ns("first_token_ns") - ns("received_ns")) / 1e9);
    seen.tpot.push_back((ns("last_token_ns") - ns("first_token_ns")) / 1e9 / (ns("output_tokens") - 1));
    seen.decoding += (ns("last_token_ns") - ns("first_token_ns")) / 1e9;
    seen.after_the_first += ns("output_tokens") - 1;
  }
}

/// Adds up what both replicas say of all streams. The last line may be a moment behind what the client has seen.
Seen truth_of(const SimulatedReplica& first, const SimulatedReplica& second) {
  for (const auto deadline = Clock::now() + patience;;) {
    const auto log = read_file(first.log()) + read_file(second.log());
    if (static_cast<std::size_t>(std::count(log.begin(), log.end(), '\n')) >= streams || Clock::now() > deadline) {
      Seen seen;
      add_truth(seen, log);
      EXPECT_EQ(seen.ttft.size(), streams);
      return seen;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// Medians in seconds.
struct Medians {
  double ttft = 0, tpot = 0;
};

Medians medians_of(const Seen& seen) { return {median(seen.ttft), median(seen.tpot)}; }

bool agree(const Medians& a, const Medians& b) {
  return std::abs(a.ttft - b.ttft) <= ttft_tolerance && std::abs(a.tpot - b.tpot) <= tpot_tolerance;
}

/// Runs one load through a weir of its own; true where all three agree. Every round checks what must be exact.
bool one_round(unsigned speculative_tokens) {
  SimulatedReplica first(1, speculative_tokens), second(2, speculative_tokens);
  WeirSettings settings{
      .pools = {{.name = "chat", .replicas = {{.name = "a", .url = first.url()}, {.name = "b", .url = second.url()}}}}};
  if (speculative_tokens > 0) settings.measure["inject_continuous_usage"] = "true";
  WeirUnderTest weir(settings);
  const TemporaryDirectory directory;
  const auto report = directory.path() / "load.json";
  const auto load = run({WEIR_LAB_PROGRAM, "load", "--url", "http://127.0.0.1:" + std::to_string(weir.port()),
                         "--requests", std::to_string(streams), "--concurrency", "10", "--input-tokens", "200",
                         "--output-tokens", "32", "--output-stddev", "4", "--json", report.string()});
  EXPECT_EQ(load.exit.code, 0) << load.output;

  const Seen truth = truth_of(first, second);
  Seen measured;
  double empty_ends = 0;  // The wire's counts alone tell the end-of-sequence token: its event has no text.
  for (const auto& line : weir.log_lines(streams)) {
    EXPECT_EQ(member(line, "outcome"), "ok");
    EXPECT_EQ(member(line, "k_source"), speculative_tokens > 0 ? "wire" : "settled");
    if (speculative_tokens == 0 && member(line, "finish_reason") == "stop") ++empty_ends;
    measured.ttft.push_back(line.at("ttft_s").to_number<double>());
    measured.tpot.push_back(line.at("tpot_s").to_number<double>());
  }
  const auto metrics = weir.metrics_after(streams);
  expect_idle(metrics);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), streams);
  EXPECT_EQ(metrics.sum("weir_itl_unknown_requests_total"), 0);
  const double gaps = metrics.sum("weir_inter_token_latency_seconds_count");
  EXPECT_EQ(gaps, truth.after_the_first - empty_ends);
  const double itl = metrics.sum("weir_inter_token_latency_seconds_sum") / gaps;

  const auto json = boost::json::parse(read_file(report)).as_object();
  EXPECT_EQ(member(json, "requests_ok"), std::to_string(streams)) << load.output;
  const auto p50 = [&](const char* name) { return json.at(name).as_object().at("p50").to_number<double>(); };
  const Medians replica = medians_of(truth), weirs = medians_of(measured), client{p50("ttft_s"), p50("tpot_s")};
  std::cout << "medians in ms, replica / weir / client: TTFT " << replica.ttft * 1e3 << " / " << weirs.ttft * 1e3
            << " / " << client.ttft * 1e3 << ", TPOT " << replica.tpot * 1e3 << " / " << weirs.tpot * 1e3 << " / "
            << client.tpot * 1e3 << "; mean ITL, replica / weir: " << truth.decoding / truth.after_the_first * 1e3
            << " / " << itl * 1e3 << '\n';
  // Where several tokens come in one event, the load counts one.
  const bool mean_agrees = std::abs(itl - truth.decoding / truth.after_the_first) <= itl_tolerance;
  return mean_agrees && agree(replica, weirs) && (speculative_tokens > 0 || agree(weirs, client));
}

/// A machine with other work to do delays three processes at different moments, so one round in three has to agree. A
/// wrong measurement is wrong in all of them.
bool one_round_in_three(unsigned speculative_tokens) {
  for (int round = 0; round < 3 && !::testing::Test::HasFailure(); ++round)
    if (one_round(speculative_tokens)) return true;
  return false;
}

TEST(Agreement, TheReplicaWeirAndTheClientSeeTheSameTtftAndTpot) {
  EXPECT_TRUE(one_round_in_three(0)) << "the medians are too far apart in every round";
}

TEST(Agreement, SpeculativeDecodingGivesTheEnginesItlAndTpotAlthoughSeveralTokensComeInOneEvent) {
  EXPECT_TRUE(one_round_in_three(4)) << "the figures are too far apart in every round";
}

}  // namespace
}  // namespace weir::integration
