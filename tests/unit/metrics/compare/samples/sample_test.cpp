#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/record/request_record.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"
#include "tests/unit/metrics/record/sample_record.hpp"

namespace weir::metrics::compare::samples {
namespace {

using config::Seconds;
using config::Slo;

Slo slo(std::optional<double> ttft_client, std::optional<double> ttft = {}, std::optional<double> tpot = {},
        std::optional<double> e2e = {}) {
  const auto seconds = [](std::optional<double> s) { return s ? std::optional(Seconds(*s)) : std::nullopt; };
  return {"s", "chat", seconds(ttft_client), seconds(ttft), seconds(tpot), seconds(e2e)};
}

/// A stream that waited 0.5 s in weir: TTFT 0.1 s (the client's 0.6 s), TPOT 0.02 s, 100 tokens, duration 2.58 s.
Sample waited() {
  TwinSamples samples;
  Sample sample = samples.primary(0);
  sample.dispatched_us = second / 2;
  sample.ttft_client = 0.6f;
  sample.e2e = sample.lasted = 2.58f;
  return sample;
}

TEST(Attainment, PairsAreJudgedFromTheirDispatch) {
  struct Case {
    const char* name;
    Slo slo;
    Attainment arrival, dispatch;
  };
  const auto met = Attainment::met, missed = Attainment::missed;
  for (const auto& c : std::vector<Case>{
           {"the wait is the client's", slo(0.3), missed, met},
           {"equal", slo(0.6), met, met},
           {"too slow for both", slo(0.09), missed, missed},
           {"ttft is from the dispatch for both", slo({}, 0.1), met, met},
           {"tpot", slo({}, {}, 0.02), met, met},
           {"tpot missed", slo({}, {}, 0.0199), missed, missed},
           {"the duration has the wait in it", slo({}, {}, {}, 2.5), missed, met},
           {"a duration that is too long", slo({}, {}, {}, 2.0), missed, missed},
           {"one of two missed", slo(1.0, {}, 0.01), missed, missed},
       }) {
    EXPECT_EQ(judge(c.slo, waited(), Since::arrival), c.arrival) << c.name;
    EXPECT_EQ(judge(c.slo, waited(), Since::dispatch), c.dispatch) << c.name;
  }
}

TEST(Attainment, OutcomesCountAsInTheMetrics) {
  struct Case {
    const char* name;
    std::function<void(Sample&)> bend;
    Attainment attainment;
  };
  const auto outcome = [](Outcome value) {
    return [value](Sample& sample) {
      sample.outcome = value;
      sample.served = false;
    };
  };
  for (const auto& c : std::vector<Case>{
           {"replica_refused", outcome(Outcome::replica_refused), Attainment::missed},
           {"client_error", outcome(Outcome::client_error), Attainment::refused},
           {"left early", outcome(Outcome::client_abort), Attainment::left_early},
           {"left late",
            [](Sample& s) {
              s.outcome = Outcome::client_abort;
              s.served = false;
              s.ttft = s.ttft_client = unknown;
              s.lasted = 5;
            },
            Attainment::missed},
           {"left while tokens came slowly",
            [](Sample& s) {
              s.outcome = Outcome::client_abort;
              s.served = false;
              s.tpot = unknown;
              s.output_tokens = 3;
              s.lasted = 1.7f;
            },
            Attainment::missed},
           {"left after the end", [](Sample& s) { s.outcome = Outcome::client_abort; }, Attainment::met},
           {"dropped",
            [](Sample& s) {
              s.drop_reason = 1;
              s.served = false;
              s.outcome = Outcome::bad_request;
            },
            Attainment::missed},
           {"not streamed",
            [](Sample& s) {
              s.stream = false;
              s.ttft = s.ttft_client = s.tpot = unknown;
            },
            Attainment::no_figure},
           {"no token",
            [](Sample& s) {
              s.outcome = Outcome::ok_empty;
              s.ttft = s.ttft_client = s.tpot = unknown;
            },
            Attainment::no_figure},
       }) {
    Sample sample = waited();
    c.bend(sample);
    EXPECT_EQ(judge(slo(1.0, {}, 0.5), sample, Since::arrival), c.attainment) << c.name;
  }
}

// The same request, as a record and as the sample of it, has the same result.
TEST(Attainment, AgreesWithTheMetrics) {
  Names names;
  std::uint64_t judged = 0;
  for (const bool stream : {true, false}) {
    for (const Outcome outcome :
         {Outcome::ok, Outcome::ok_empty, Outcome::upstream_error, Outcome::timeout, Outcome::client_error,
          Outcome::client_abort, Outcome::rejected, Outcome::bad_request}) {
      for (const double limit : {0.05, 0.1025, 0.2, 1.2}) {
        for (const Slo& objective :
             {slo(limit), slo({}, limit), slo({}, {}, limit / 10), slo({}, {}, {}, limit), slo(1, 1, limit / 5, 2)}) {
          record::RequestRecord record = stream ? record::streamed() : record::unstreamed();
          record.outcome = outcome;
          if (outcome == Outcome::client_abort) record.answer.complete = Completeness::none;
          const auto truth = record::judge(objective, record);
          const Attainment attainment = judge(objective, sample_of(record, names), Since::arrival);
          SCOPED_TRACE(std::string(name_of(outcome)) + " " + std::to_string(limit) + (stream ? " stream" : ""));
          if (!truth) {
            EXPECT_TRUE(attainment != Attainment::met && attainment != Attainment::missed);
          } else {
            EXPECT_EQ(attainment, *truth == record::SloResult::good ? Attainment::met : Attainment::missed);
            ++judged;
          }
        }
      }
    }
  }
  EXPECT_GT(judged, 100u);
}

TEST(Attainment, OfPairs) {
  struct Case {
    const char* name;
    std::function<void(Sample&)> bend;
    std::optional<bool>
        met;  ///< What the bent answer is beside one that met the objective. Nothing: the pair does not count.
  };
  const auto outcome = [](Outcome value) {
    return [value](Sample& sample) {
      sample.outcome = value;
      sample.served = false;
    };
  };
  for (const auto& c : std::vector<Case>{
           {"met", [](Sample&) {}, true},
           {"too slow", [](Sample& s) { s.ttft = 3; }, false},
           {"dropped",
            [](Sample& s) {
              s.drop_reason = 1;
              s.served = false;
              s.outcome = Outcome::rejected;
            },
            false},
           {"failed", outcome(Outcome::upstream_error), false},
           {"timed out", outcome(Outcome::timeout), false},
           {"refused by this side alone", outcome(Outcome::client_error), false},
           {"left early", outcome(Outcome::client_abort), {}},
           {"empty",
            [](Sample& s) {
              s.outcome = Outcome::ok_empty;
              s.ttft = s.tpot = unknown;
            },
            false},
           {"one token",
            [](Sample& s) {
              s.output_tokens = 1;
              s.ttft = s.tpot = unknown;
            },
            true},
       }) {
    const Sample other = waited();
    Sample bent = waited();
    c.bend(bent);
    const auto forth = judge_pair(slo(1.0, {}, 0.5), other, bent), back = judge_pair(slo(1.0, {}, 0.5), bent, other);
    ASSERT_EQ(forth.has_value(), c.met.has_value()) << c.name;
    ASSERT_EQ(back.has_value(), c.met.has_value()) << c.name;
    if (!c.met) continue;
    EXPECT_TRUE(forth->a && back->b) << c.name;
    EXPECT_EQ(forth->b, *c.met) << c.name;
    EXPECT_EQ(back->a, *c.met) << c.name;
  }
}

TEST(Attainment, AnObjectiveThatAppliesToNeitherTellsNothing) {
  Sample refused = waited(), unstreamed = waited();
  refused.served = false;
  refused.outcome = Outcome::client_error;
  unstreamed.stream = false;
  unstreamed.ttft = unstreamed.tpot = unknown;
  EXPECT_FALSE(judge_pair(slo(1.0), refused, refused));
  EXPECT_FALSE(judge_pair(slo(1.0), unstreamed, unstreamed));
  // A replica was refused what the other could do.
  const auto met = judge_pair(slo(1.0), unstreamed, refused);
  ASSERT_TRUE(met);
  EXPECT_TRUE(met->a);
  EXPECT_FALSE(met->b);
}

}  // namespace
}  // namespace weir::metrics::compare::samples
