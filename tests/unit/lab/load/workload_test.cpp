#include "lab/load/workload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "lab/engine/words.hpp"

namespace weir::lab::load {
namespace {

using Entries = std::vector<TraceEntry>;

TEST(Trace, ReadsTimesAsSecondsSinceTheFirst) {
  std::istringstream in(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 23:59:59.5000000,374,44\n"
      "2023-11-17 00:00:01.0000000,396,109\r\n"
      "\n"
      "2023-11-17 00:00:01.2500000,0,0\n");
  const auto read = read_trace(in, 0);
  ASSERT_TRUE(std::holds_alternative<Entries>(read)) << std::get<std::string>(read);
  EXPECT_EQ(std::get<Entries>(read), (Entries{{0, 374, 44}, {1.5, 396, 109}, {1.75, 1, 1}}));
}

TEST(Trace, NamesTheLineThatIsWrong) {
  const std::string head = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,1,1\n";
  const struct {
    std::string text, names;
  } cases[] = {
      {"a,b\n", "line 1"},
      {head + "2023-11-16 18:15:47,1\n", "line 3"},
      {head + "2023-11-16 18:15:47,1,1,1\n", "line 3"},
      {head + "2023-13-16 18:15:47,1,1\n", "line 3"},
      {head + "2023-11-16 18:15:47,-1,1\n", "line 3"},
      {head + "yesterday,1,1\n", "line 3"},
      {head + "2023-11-16 18:15:45,1,1\n", "before"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n", "no entries"},
  };
  for (const auto& c : cases) {
    std::istringstream in(c.text);
    const auto read = read_trace(in, 0);
    ASSERT_TRUE(std::holds_alternative<std::string>(read)) << c.text;
    EXPECT_THAT(std::get<std::string>(read), testing::HasSubstr(c.names));
  }
}

TEST(Trace, ReadsRealTraces) {
  std::ifstream conv(WEIR_TEST_DATA "/traces/conv.csv"), code(WEIR_TEST_DATA "/traces/code.csv");
  const auto first = read_trace(conv, 0), second = read_trace(code, 100);
  ASSERT_TRUE(std::holds_alternative<Entries>(first)) << std::get<std::string>(first);
  ASSERT_TRUE(std::holds_alternative<Entries>(second)) << std::get<std::string>(second);
  EXPECT_EQ(std::get<Entries>(first).size(), 2000u);
  EXPECT_EQ(std::get<Entries>(second).size(), 100u);
  EXPECT_NEAR(std::get<Entries>(first)[1].at, 4.314579, 1e-6);
}

/// Returns the mean and the deviation of what `value` draws from the first `n` requests.
template <class Value>
std::pair<double, double> moments(Workload workload, int n, Value value) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double v = value(*workload.next());
    sum += v;
    squares += v * v;
  }
  const double mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean)};
}

TEST(Workload, LengthsHaveTheMeansAndDeviationsAskedFor) {
  const Workload workload{WorkloadSettings{}};
  const auto [input, input_deviation] =
      moments(workload, 20'000, [](const Planned& p) { return double(p.prompt_tokens); });
  const auto [output, output_deviation] =
      moments(workload, 20'000, [](const Planned& p) { return double(p.output_tokens); });
  EXPECT_NEAR(input, 550, 4);
  EXPECT_NEAR(input_deviation, 150, 3);
  EXPECT_NEAR(output, 150, 1);
  EXPECT_NEAR(output_deviation, 20, 0.5);
}

TEST(Workload, LengthsAreNeverBelowOne) {
  WorkloadSettings settings;
  settings.input_tokens = 1;
  settings.input_stddev = 50;
  Workload workload(settings);
  for (int i = 0; i < 1'000; ++i) EXPECT_GE(workload.next()->prompt_tokens, 1u);
}

TEST(Workload, PoissonArrivalsComeAtTheRateAndAsIrregularly) {
  WorkloadSettings settings;
  settings.rate = 8;
  Workload workload(settings);
  EXPECT_TRUE(workload.open_loop());
  double last = 0;
  const auto [mean, deviation] = moments(workload, 20'000, [&](const Planned& p) {
    const double gap = p.at - last;
    last = p.at;
    EXPECT_GE(gap, 0);
    return gap;
  });
  EXPECT_NEAR(mean, 0.125, 0.003);
  EXPECT_NEAR(deviation, 0.125, 0.004);
}

TEST(Workload, ATraceGivesItsArrivalsScaledAndEnds) {
  WorkloadSettings settings;
  settings.trace = {{0, 10, 1}, {3, 20, 2}};
  settings.trace_arrivals = true;
  settings.trace_speed = 2;
  Workload workload(settings);
  EXPECT_TRUE(workload.open_loop());
  EXPECT_EQ(workload.next()->prompt_tokens, 10u);
  const auto second = workload.next();
  EXPECT_EQ(second->output_tokens, 2u);
  EXPECT_DOUBLE_EQ(second->at, 1.5);
  EXPECT_EQ(workload.next(), std::nullopt);
}

TEST(Workload, ATraceOfLengthsOnlyBeginsAgain) {
  WorkloadSettings settings;
  settings.trace = {{0, 10, 1}, {3, 20, 2}};
  Workload workload(settings);
  EXPECT_FALSE(workload.open_loop());
  workload.next();
  workload.next();
  const auto third = workload.next();
  EXPECT_EQ(third->prompt_tokens, 10u);
  EXPECT_EQ(third->number, 2u);
  EXPECT_EQ(third->at, 0);
}

TEST(Workload, PromptsHaveTheirLengthAndFollowFromTheSeed) {
  WorkloadSettings settings;
  Workload a(settings), b(settings);
  settings.seed = 2;
  Workload c(settings);
  const Planned one = *a.next();
  const Planned two = *a.next();
  EXPECT_EQ(engine::count_tokens(a.prompt(one)), one.prompt_tokens);
  EXPECT_EQ(a.prompt(one), b.prompt(*b.next()));
  EXPECT_NE(a.prompt(one).substr(0, 50), a.prompt(two).substr(0, 50));
  EXPECT_NE(a.prompt(one).substr(0, 50), c.prompt(one).substr(0, 50));
}

TEST(RequestBody, SpeaksEachApi) {
  using boost::json::parse;
  EXPECT_EQ(parse(request_body(Api::chat, "m", "a \"b\"", 7, true)),
            parse(R"({"model":"m","messages":[{"role":"user","content":"a \"b\""}],"max_tokens":7,"stream":true,
                      "stream_options":{"include_usage":true}})"));
  EXPECT_EQ(parse(request_body(Api::completions, "", "p", 7, false)),
            parse(R"({"prompt":"p","max_tokens":7,"stream":true})"));
  EXPECT_EQ(parse(request_body(Api::tgi, "m", "p", 7, true)),
            parse(R"({"inputs":"p","parameters":{"max_new_tokens":7,"details":true}})"));
}

}  // namespace
}  // namespace weir::lab::load
