// Three observers of the same streams must see the same: the simulated replica that made them, weir in the middle, and
// the load that received them.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

constexpr std::size_t streams = 40;
// On a quiet machine all three are within 1 ms. A wrong definition would be off by a step of the engine (18 ms).
constexpr double ttft_tolerance = 0.005;
constexpr double tpot_tolerance = 0.002;
constexpr double itl_tolerance = 0.0005;  // It applies to means over all streams.

double quantile(std::vector<double> values, double share) {
  if (values.empty()) throw std::runtime_error("no values to take a quantile of");
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// A stream's times as one of the three sees them, in seconds.
struct Times {
  double ttft = 0, tpot = 0;
};
/// The key is the request's id, which the load gives and weir passes on.
using Seen = std::map<std::string, Times>;

struct Truth {
  Seen seen;
  double after_the_first = 0;  ///< The tokens of all streams but the first of each.
};

/// Reads what both replicas say of all streams. The last line may be a moment behind what the client has seen.
Truth truth_of(const SimulatedReplica& first, const SimulatedReplica& second) {
  std::string log;
  look_until("the lines of all streams", [&] {
    log = read_file(first.log()) + read_file(second.log());
    return times_in(log, "\n") >= streams;
  });
  Truth truth;
  for (const auto& line : json_lines(log)) {
    const auto ns = [&](const char* name) { return line.at(name).to_number<double>(); };
    EXPECT_EQ(member(line, "status"), "finished");
    const auto tokens_after_the_first = ns("output_tokens") - 1;
    truth.seen[member(line, "request_id")] = {
        (ns("first_token_ns") - ns("received_ns")) / 1e9,
        (ns("last_token_ns") - ns("first_token_ns")) / 1e9 / tokens_after_the_first};
    truth.after_the_first += tokens_after_the_first;
  }
  EXPECT_EQ(truth.seen.size(), streams);
  return truth;
}

/// Reads what the load says in its own log.
Seen seen_by_the_load(const std::filesystem::path& log) {
  Seen seen;
  for (const auto& line : json_lines(read_file(log))) {
    EXPECT_EQ(member(line, "outcome"), "ok");
    // A stream whose tokens all came in one read has no TPOT, because the machine stood still that long.
    if (line.at("ttft_client_s").is_null() || line.at("tpot_s").is_null()) continue;
    seen[member(line, "client_id")] = {line.at("ttft_client_s").to_number<double>(),
                                       line.at("tpot_s").to_number<double>()};
  }
  return seen;
}

/// Returns by how much `far` measures more than `near`, which is nearer to the engine, whatever the speed of the
/// machine. A machine with other work to do delays requests and tokens on their way. That can only make a TTFT longer,
/// so the tenth of the streams that was delayed least shows how the definitions differ. It makes a TPOT longer if it
/// delays the last token, and shorter if it delays the first, so there the median shows it.
Times difference(const Seen& near, const Seen& far) {
  std::vector<double> ttft, tpot;
  for (const auto& [id, times] : near) {
    const auto found = far.find(id);
    if (found == far.end()) continue;
    ttft.push_back(found->second.ttft - times.ttft);
    tpot.push_back(found->second.tpot - times.tpot);
  }
  EXPECT_GE(ttft.size(), streams * 3 / 4) << "of nearly every stream both tell both times";
  return {quantile(ttft, 0.1), quantile(tpot, 0.5)};
}

/// Runs one load through a weir of its own.
void expect_agreement(unsigned speculative_tokens) {
  const std::string drafted = std::to_string(speculative_tokens);
  const SimulatedReplica first({"--seed", "1", "--speculative-tokens", drafted}),
      second({"--seed", "2", "--speculative-tokens", drafted});
  WeirSettings settings{
      .pools = {{.name = "chat", .replicas = {{.name = "a", .url = first.url()}, {.name = "b", .url = second.url()}}}}};
  if (speculative_tokens > 0) settings.measure["inject_continuous_usage"] = "true";
  WeirUnderTest weir(settings);
  const TemporaryDirectory directory;
  const auto report = directory.path() / "load.json", load_log = directory.path() / "load.jsonl";
  const auto load = run_lab({"load", "--url", url_of(weir.port()), "--requests", std::to_string(streams),
                             "--concurrency", "10", "--input-tokens", "200", "--output-tokens", "32", "--output-stddev",
                             "4", "--json", report.string(), "--log", load_log.string(),
                             // weir asks for usage in every event only if the client has not asked for usage itself.
                             speculative_tokens > 0 ? "--no-usage" : "--usage"});
  EXPECT_EQ(load.exit.code, 0) << load.output;
  EXPECT_EQ(member(boost::json::parse(read_file(report)).as_object(), "requests_ok"), std::to_string(streams))
      << load.output;

  const Truth truth = truth_of(first, second);
  const Seen client = seen_by_the_load(load_log);
  Seen measured;
  double empty_ends = 0;  // The end-of-sequence token comes in an event without text, so only the wire's counts show
                          // it.
  double decoding = 0;    // It is the seconds from first to last token, of all streams.
  for (const auto& line : weir.log_lines(streams)) {
    EXPECT_EQ(member(line, "outcome"), "ok");
    EXPECT_EQ(member(line, "k_source"), speculative_tokens > 0 ? "wire" : "settled");
    if (speculative_tokens == 0 && member(line, "finish_reason") == "stop") ++empty_ends;
    const auto number = [&](const char* name) { return line.at(name).to_number<double>(); };
    if (line.at("ttft_s").is_null() || line.at("tpot_s").is_null()) continue;
    measured[member(line, "client_id")] = {number("ttft_s"), number("tpot_s")};
    decoding += number("tpot_s") * (number("output_tokens") - 1);
  }
  const auto metrics = weir.metrics_after(streams);
  expect_idle(metrics);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), streams);
  EXPECT_EQ(metrics.sum("weir_itl_unknown_requests_total"), 0);
  const double gaps = metrics.sum("weir_inter_token_latency_seconds_count");
  EXPECT_EQ(gaps, truth.after_the_first - empty_ends);
  // Both figures are weir's own, by the same moments, so that no machine is too slow for this. The gap before an empty
  // end counts only in the TPOT.
  const double itl = metrics.sum("weir_inter_token_latency_seconds_sum") / gaps;
  EXPECT_NEAR(itl, decoding / truth.after_the_first, itl_tolerance) << "the gaps of a stream are its time of decoding";

  const auto weirs = difference(truth.seen, measured);
  std::cout << "weir less replica: TTFT " << weirs.ttft * 1e3 << " ms, TPOT " << weirs.tpot * 1e3 << " ms\n";
  EXPECT_NEAR(weirs.ttft, 0, ttft_tolerance);
  EXPECT_NEAR(weirs.tpot, 0, tpot_tolerance);
  if (speculative_tokens > 0) return;  // A client that does not ask for usage cannot tell the tokens of an event.
  const auto clients = difference(measured, client);
  std::cout << "client less weir: TTFT " << clients.ttft * 1e3 << " ms, TPOT " << clients.tpot * 1e3 << " ms\n";
  EXPECT_NEAR(clients.ttft, 0, ttft_tolerance);
  EXPECT_NEAR(clients.tpot, 0, tpot_tolerance);
}

TEST(Agreement, TheReplicaWeirAndTheClientSeeTheSameTtftAndTpot) { expect_agreement(0); }

TEST(Agreement, SpeculativeDecodingGivesTheEnginesItlAndTpotAlthoughSeveralTokensComeInOneEvent) {
  expect_agreement(4);
}

}  // namespace
}  // namespace weir::integration
