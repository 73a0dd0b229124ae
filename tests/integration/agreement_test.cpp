// Three who look at the same streams must see the same: the simulated replica that made them, weir in the middle, and
// the load that received them.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <thread>

#include "streams.hpp"
#include "weir_under_test.hpp"

namespace weir::integration {
namespace {

constexpr std::size_t streams = 40;
constexpr double tolerance = 0.002;

double median(std::vector<double> values) {
  if (values.empty()) throw std::runtime_error("no values to take the median of");
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// `weir-lab sim` on a port of its own, ready.
class SimulatedReplica {
 public:
  explicit SimulatedReplica(unsigned seed)
      : port_(free_port()),
        process_({WEIR_LAB_PROGRAM, "sim", "--listen", "127.0.0.1:" + std::to_string(port_), "--seed",
                  std::to_string(seed), "--log", log().string()},
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
};

void add_truth(Seen& seen, const std::filesystem::path& log) {
  std::istringstream lines(read_file(log));
  for (std::string text; std::getline(lines, text);) {
    const auto line = boost::json::parse(text).as_object();
    const auto ns = [&](const char* name) { return line.at(name).to_number<double>(); };
    EXPECT_EQ(member(line, "status"), "finished");
    seen.ttft.push_back((ns("first_token_ns") - ns("received_ns")) / 1e9);
    seen.tpot.push_back((ns("last_token_ns") - ns("first_token_ns")) / 1e9 / (ns("output_tokens") - 1));
  }
}

TEST(Agreement, TheReplicaWeirAndTheClientSeeTheSameTtftAndTpot) {
  SimulatedReplica first(1), second(2);
  WeirUnderTest weir(
      {.pools = {
           {.name = "chat", .replicas = {{.name = "a", .url = first.url()}, {.name = "b", .url = second.url()}}}}});
  const TemporaryDirectory directory;
  const auto report = directory.path() / "load.json";

  const auto load = run({WEIR_LAB_PROGRAM, "load", "--url", "http://127.0.0.1:" + std::to_string(weir.port()),
                         "--requests", std::to_string(streams), "--concurrency", "10", "--input-tokens", "200",
                         "--output-tokens", "32", "--output-stddev", "4", "--json", report.string()});
  ASSERT_EQ(load.exit.code, 0) << load.output;

  Seen truth, measured;
  add_truth(truth, first.log());
  add_truth(truth, second.log());
  for (const auto& line : weir.log_lines(streams)) {
    EXPECT_EQ(member(line, "outcome"), "ok");
    EXPECT_EQ(member(line, "k_source"), "settled");
    measured.ttft.push_back(line.at("ttft_s").to_number<double>());
    measured.tpot.push_back(line.at("tpot_s").to_number<double>());
  }
  const auto client = boost::json::parse(read_file(report)).as_object();
  ASSERT_EQ(member(client, "requests_ok"), std::to_string(streams)) << load.output;
  const auto p50 = [&](const char* name) { return client.at(name).as_object().at("p50").to_number<double>(); };

  const double ttft = median(measured.ttft), tpot = median(measured.tpot);
  ASSERT_EQ(truth.ttft.size(), streams);
  EXPECT_NEAR(ttft, median(truth.ttft), tolerance);
  EXPECT_NEAR(tpot, median(truth.tpot), tolerance);
  EXPECT_NEAR(ttft, p50("ttft_s"), tolerance);
  EXPECT_NEAR(tpot, p50("tpot_s"), tolerance);
  std::cout << "medians in ms, replica / weir / client: TTFT " << median(truth.ttft) * 1e3 << " / " << ttft * 1e3
            << " / " << p50("ttft_s") * 1e3 << ", TPOT " << median(truth.tpot) * 1e3 << " / " << tpot * 1e3 << " / "
            << p50("tpot_s") * 1e3 << '\n';

  const auto metrics = weir.metrics_after(streams);
  expect_idle(metrics);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), streams);
  EXPECT_EQ(metrics.sum("weir_itl_unknown_requests_total"), 0);
}

}  // namespace
}  // namespace weir::integration
