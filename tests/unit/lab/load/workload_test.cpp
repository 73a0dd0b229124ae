#include "lab/load/workload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "lab/engine/words.hpp"

namespace weir::lab::load {
namespace {

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

TEST(Workload, GapsHaveTheMeanOfTheRateAndTheVariationAskedFor) {
  const struct {
    const char* how;
    double cv;
  } kinds[]{{"poisson", 1}, {"constant", 0}, {"gamma:0.5", 0.5},
            {"gamma:1", 1}, {"gamma:2", 2},  {"burst:4", std::sqrt(3)}};
  for (const auto& [how, cv] : kinds) {
    WorkloadSettings settings;
    settings.rate = 8;
    settings.arrivals = arrivals_of(how).value();
    double last = 0;
    const auto [mean, deviation] = moments(Workload(settings), 40'000, [&](const Planned& p) {
      const double gap = p.at - last;
      last = p.at;
      EXPECT_GE(gap, 0);
      return gap;
    });
    EXPECT_NEAR(mean, 0.125, 0.004) << how;
    EXPECT_NEAR(deviation / mean, cv, 0.05 * cv + 1e-6) << how;
  }
}

TEST(Workload, ABurstIsSentAtOnce) {
  WorkloadSettings settings;
  settings.rate = 2;
  settings.arrivals = arrivals_of("burst:3").value();
  Workload workload(settings);
  std::vector<double> at;
  for (int i = 0; i < 7; ++i) at.push_back(workload.next()->at);
  EXPECT_THAT(at, testing::ElementsAre(1.5, 1.5, 1.5, 3, 3, 3, 4.5));
}

TEST(Workload, ArrivalsAreReadWholeOrNotAtAll) {
  for (const char* wrong : {"", "Poisson", "poisson ", "constant:1", "gamma", "gamma:", "gamma:0", "gamma:101",
                            "gamma:nan", "gamma:2x", "burst", "burst:0", "burst:-1", "burst:1.5", "burst:100001"}) {
    EXPECT_FALSE(arrivals_of(wrong)) << wrong;
  }
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

TEST(Workload, ATraceGivesItsArrivalsScaledAndEndsOrOnlyItsLengthsAndBeginsAgain) {
  WorkloadSettings settings;
  settings.trace = {{0, 10, 1}, {3, 20, 2}};
  Workload lengths(settings);
  settings.trace_arrivals = true;
  settings.trace_speed = 2;
  Workload arrivals(settings);
  EXPECT_TRUE(arrivals.open_loop());
  EXPECT_FALSE(lengths.open_loop());
  for (Workload* workload : {&arrivals, &lengths}) {
    EXPECT_EQ(workload->next()->prompt_tokens, 10u);
    const auto second = workload->next();
    EXPECT_EQ(second->output_tokens, 2u);
    EXPECT_DOUBLE_EQ(second->at, workload == &arrivals ? 1.5 : 0);
  }
  EXPECT_EQ(arrivals.next(), std::nullopt);
  const auto third = lengths.next();
  EXPECT_EQ(third->prompt_tokens, 10u);
  EXPECT_EQ(third->number, 2u);
}

TEST(Workload, PromptsHaveTheirLengthAndFollowFromTheSeed) {
  WorkloadSettings settings;
  Workload a(settings), b(settings);
  settings.seed = 2;
  Workload c(settings);
  const Planned one = *a.next();
  const Planned two = *a.next();
  const auto prompt = [](const Workload& workload, const Planned& planned) {
    const auto messages = workload.messages(planned);
    EXPECT_EQ(messages.size(), 1u);
    return messages.front();
  };
  EXPECT_EQ(engine::count_tokens(prompt(a, one)), one.prompt_tokens);
  EXPECT_EQ(prompt(a, one), prompt(b, *b.next()));
  EXPECT_NE(prompt(a, one).substr(0, 50), prompt(a, two).substr(0, 50));
  EXPECT_NE(prompt(a, one).substr(0, 50), prompt(c, one).substr(0, 50));
}

TEST(Workload, OtherTextsHaveTheSameLengths) {
  WorkloadSettings settings;
  Workload one(settings);
  settings.texts = 1;
  Workload other(settings);
  for (int i = 0; i < 20; ++i) {
    const Planned a = *one.next(), b = *other.next();
    EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
    EXPECT_EQ(a.output_tokens, b.output_tokens);
    EXPECT_NE(one.messages(a).front().substr(0, 20), other.messages(b).front().substr(0, 20));
  }
}

TEST(Workload, DrawsFromARangeEvenly) {
  WorkloadSettings settings;
  settings.input_range = {250, 3500};
  settings.output_range = {16, 64};
  Workload workload(settings);
  const auto [input, deviation] = moments(workload, 20'000, [](const Planned& p) {
    EXPECT_GE(p.prompt_tokens, 250u);
    EXPECT_LE(p.prompt_tokens, 3500u);
    EXPECT_GE(p.output_tokens, 16u);
    EXPECT_LE(p.output_tokens, 64u);
    return double(p.prompt_tokens);
  });
  EXPECT_NEAR(input, 1875, 30);
  EXPECT_NEAR(deviation, 3250 / std::sqrt(12), 20);
}

TEST(RequestBody, SpeaksEachApi) {
  using boost::json::parse;
  const auto request_body = [](Api api, std::string_view model, std::string prompt, std::uint64_t tokens, bool usage) {
    return load::request_body(api, model, {&prompt, 1}, {tokens, usage});
  };
  EXPECT_EQ(parse(request_body(Api::chat, "m", "a \"b\"", 7, true)),
            parse(R"({"model":"m","messages":[{"role":"user","content":"a \"b\""}],"max_tokens":7,"stream":true,
                      "stream_options":{"include_usage":true}})"));
  EXPECT_EQ(parse(request_body(Api::completions, "", "p", 7, false)),
            parse(R"({"prompt":"p","max_tokens":7,"stream":true})"));
  EXPECT_EQ(parse(request_body(Api::tgi, "m", "p", 7, true)),
            parse(R"({"inputs":"p","parameters":{"max_new_tokens":7,"details":true}})"));
  const std::string turns[] = {"a", "b", "c"};
  EXPECT_EQ(parse(load::request_body(Api::chat, "", turns, {7})),
            parse(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
                      {"role":"user","content":"c"}],"max_tokens":7,"stream":true})"));
  EXPECT_EQ(parse(load::request_body(Api::completions, "", turns, {7})).at("prompt"), "a\nb\nc");
  EXPECT_EQ(parse(load::request_body(Api::chat, "m", {turns, 1}, {7, false, true})),
            parse(R"({"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":7,"stream":true,
                      "ignore_eos":true})"));
  EXPECT_EQ(parse(load::request_body(Api::completions, "", {turns, 1}, {7, true, true})),
            parse(R"({"prompt":"a","max_tokens":7,"stream":true,"ignore_eos":true,
                      "stream_options":{"include_usage":true}})"));
}

}  // namespace
}  // namespace weir::lab::load
