#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "metrics/record/request_record.hpp"
#include "tests/unit/metrics/record/sample_record.hpp"

namespace weir::metrics::record {
namespace {

void expect_near(const std::optional<double>& actual, double expected) {
  ASSERT_TRUE(actual.has_value());
  EXPECT_NEAR(*actual, expected, 1e-12);
}

TEST(Figures, OfAStream) {
  const Figures figures = figures_of(streamed());
  expect_near(figures.queue, 0.002);
  expect_near(figures.ttfb, 0.003);
  expect_near(figures.ttfc, 0.100);
  expect_near(figures.ttft, 0.100);
  expect_near(figures.ttft_client, 0.102);
  expect_near(figures.ttfot, 0.100);
  expect_near(figures.tpot, 0.010);
  expect_near(figures.ntpot, 1.102 / 101);
  expect_near(figures.e2e, 1.102);
  expect_near(figures.decode_speed, 100);
}

TEST(Figures, TellRoleChunkFirstTokenAndFirstOutputApart) {
  RequestRecord record = streamed();
  record.answer.first_choice = at(52);
  record.answer.first_output = at(602);  // It comes after reasoning.
  const Figures figures = figures_of(record);
  expect_near(figures.ttfc, 0.050);
  expect_near(figures.ttft, 0.100);
  expect_near(figures.ttfot, 0.600);
}

TEST(Figures, OfAWholeDocumentAreQueueHeadAndItsEnd) {
  RequestRecord record = unstreamed();
  // Even if a stream's moments were known, those figures exist for streams only.
  record.answer.first_choice = record.answer.first_token = record.answer.first_output = at(102);
  record.answer.last_choice = at(1102);
  record.answer.token_events_in_different_reads = true;
  const Figures figures = figures_of(record);
  expect_near(figures.queue, 0.002);
  expect_near(figures.ttfb, 0.003);
  expect_near(figures.e2e, 1.103);
  for (const auto& figure : {figures.ttfc, figures.ttft, figures.ttft_client, figures.ttfot, figures.tpot,
                             figures.ntpot, figures.decode_speed}) {
    EXPECT_EQ(figure, std::nullopt);
  }
}

TEST(Figures, OfARequestThatWasNeverSentAreAllAbsent) {
  RequestRecord record;
  record.received = at(0);
  for (const bool stream : {false, true}) {
    record.facts.stream = stream;
    const Figures f = figures_of(record);
    for (const auto& figure :
         {f.queue, f.ttfb, f.ttfc, f.ttft, f.ttft_client, f.ttfot, f.tpot, f.ntpot, f.e2e, f.decode_speed}) {
      EXPECT_EQ(figure, std::nullopt);
    }
  }
}

TEST(Figures, OfAMomentOrderThatCannotBeAreAbsent) {
  RequestRecord record = streamed();
  record.head = at(1.999);
  record.answer.first_token = at(1.5);
  const Figures figures = figures_of(record);
  EXPECT_EQ(figures.ttfb, std::nullopt);
  EXPECT_EQ(figures.ttft, std::nullopt);
  expect_near(figures.ttft_client, 0.0015);
}

TEST(Figures, OfAStreamWithoutAnEventThatCarriesAChoiceHaveNoEnd) {
  RequestRecord record = streamed();
  record.answer.last_choice.reset();
  const Figures figures = figures_of(record);
  EXPECT_EQ(figures.e2e, std::nullopt);
  EXPECT_EQ(figures.ntpot, std::nullopt);
  EXPECT_EQ(figures.tpot, std::nullopt);
}

TEST(Figures, OfADocumentWhereAStreamWasAskedForAreThoseOfADocument) {
  RequestRecord record = unstreamed();
  record.facts.stream = true;
  const Figures figures = figures_of(record);
  expect_near(figures.e2e, 1.103);
  for (const auto& absent : {figures.ttfc, figures.ttft, figures.ttft_client, figures.tpot, figures.ntpot})
    EXPECT_EQ(absent, std::nullopt);
}

struct PerTokenCase {
  const char* name;
  std::function<void(RequestRecord&)> bend;
  std::optional<double> tpot;
  std::optional<double> ntpot;
};

class PerTokenFigures : public testing::TestWithParam<PerTokenCase> {};

TEST_P(PerTokenFigures, FollowTheFormula) {
  RequestRecord record = streamed();
  GetParam().bend(record);
  const Figures figures = figures_of(record);
  ASSERT_EQ(figures.tpot.has_value(), GetParam().tpot.has_value());
  ASSERT_EQ(figures.decode_speed.has_value(), GetParam().tpot.has_value());
  if (figures.tpot) {
    EXPECT_NEAR(*figures.tpot, *GetParam().tpot, 1e-12);
    EXPECT_NEAR(*figures.decode_speed, 1 / *GetParam().tpot, 1e-6);
  }
  ASSERT_EQ(figures.ntpot.has_value(), GetParam().ntpot.has_value());
  if (figures.ntpot) {
    EXPECT_NEAR(*figures.ntpot, *GetParam().ntpot, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Edges, PerTokenFigures,
    testing::Values(
        PerTokenCase{"FirstEventHoldsSeveralTokens", [](auto& r) { r.answer.first_output_tokens = 51; }, 0.020,
                     1.102 / 101},
        PerTokenCase{"FirstEventCountedLate", [](auto& r) { r.answer.first_output_tokens = 0; }, 1.0 / 101,
                     1.102 / 101},
        PerTokenCase{"AllTokensInTheFirstEvent", [](auto& r) { r.answer.first_output_tokens = 101; }, {}, 1.102 / 101},
        PerTokenCase{
            "MoreInTheFirstEventThanInAll", [](auto& r) { r.answer.first_output_tokens = 102; }, {}, 1.102 / 101},
        PerTokenCase{"OneToken", [](auto& r) { r.answer.output_tokens = 1; }, {}, 1.102},
        PerTokenCase{"TwoTokens", [](auto& r) { r.answer.output_tokens = 2; }, 1.0, 0.551},
        PerTokenCase{"NoToken", [](auto& r) { r.answer.output_tokens = 0; }, {}, {}},
        PerTokenCase{"CountUnknown", [](auto& r) { r.answer.output_tokens.reset(); }, {}, {}},
        PerTokenCase{
            "LastEventIsTheFirst", [](auto& r) { r.answer.last_choice = r.answer.first_token; }, {}, 0.102 / 101},
        PerTokenCase{"NoTokenEvent",
                     [](auto& r) {
                       r.answer.first_token.reset();
                       r.answer.token_events_in_different_reads = false;
                     },
                     {},
                     1.102 / 101},
        PerTokenCase{"OneReadAndFirstCountUnknown",
                     [](auto& r) { r.answer.token_events_in_different_reads = false; },
                     {},
                     1.102 / 101},
        PerTokenCase{"OneReadAndFirstCountKnown",
                     [](auto& r) {
                       r.answer.token_events_in_different_reads = false;
                       r.answer.first_output_tokens = 1;
                     },
                     0.010, 1.102 / 101},
        PerTokenCase{"SeveralChoices", [](auto& r) { r.facts.n = 2; }, {}, {}}),
    [](const auto& test) { return test.param.name; });

RequestRecord with_id(std::string id) {
  RequestRecord record;
  record.id = std::move(id);
  return record;
}

TEST(FinishedRecords, ComeInOrderAndOnce) {
  FinishedRecords finished;
  EXPECT_TRUE(finished.put(with_id("a")));
  EXPECT_TRUE(finished.put(with_id("b")));
  const auto taken = finished.take();
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].id, "a");
  EXPECT_EQ(taken[1].id, "b");
  EXPECT_TRUE(finished.take().empty());
}

TEST(FinishedRecords, TheNextOnesGetTheMemoryOfThoseUsed) {
  FinishedRecords finished;
  finished.put(with_id("a"));
  auto taken = finished.take();
  const auto* const memory = taken.data();
  taken = finished.take(std::move(taken));
  EXPECT_TRUE(taken.empty());
  finished.put(with_id("b"));
  taken = finished.take(std::move(taken));
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].id, "b");
  EXPECT_EQ(taken.data(), memory);
}

TEST(FinishedRecords, MemoryOfACrowdIsNotKept) {
  FinishedRecords finished;
  for (std::size_t i = 0; i <= FinishedRecords::most_kept; ++i) finished.put({});
  auto taken = finished.take();
  ASSERT_GT(taken.capacity(), FinishedRecords::most_kept);
  static_cast<void>(finished.take(std::move(taken)));
  EXPECT_EQ(finished.take().capacity(), 0U);
}

TEST(FinishedRecords, MoreThanMostAreDropped) {
  FinishedRecords finished;
  for (std::size_t i = 0; i < FinishedRecords::most; ++i) ASSERT_TRUE(finished.put({}));
  EXPECT_FALSE(finished.put(with_id("too many")));
  EXPECT_EQ(finished.take().size(), FinishedRecords::most);
}

using config::Seconds;
using config::Slo;
using Result = std::optional<SloResult>;

const Result good = SloResult::good, bad = SloResult::bad, left_out = std::nullopt;

// streamed() has TTFT 100 ms, the client's TTFT 102 ms, TPOT 10 ms, duration 1.102 s; as one document 1.103 s.
struct Case {
  const char* name;
  Slo slo;
  std::function<void(RequestRecord&)> bend;
  Result result;
};

Slo ttft_client(double s) { return {"s", "chat", Seconds{s}, {}, {}, {}}; }
Slo ttft(double s) { return {"s", "chat", {}, Seconds{s}, {}, {}}; }
Slo tpot(double s) { return {"s", "chat", {}, {}, Seconds{s}, {}}; }
Slo e2e(double s) { return {"s", "chat", {}, {}, {}, Seconds{s}}; }
Slo all(double client, double replica, double token, double whole) {
  return {"s", "chat", Seconds{client}, Seconds{replica}, Seconds{token}, Seconds{whole}};
}

void check(const RequestRecord& sample, const std::vector<Case>& cases) {
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    RequestRecord record = sample;
    if (c.bend) c.bend(record);
    EXPECT_EQ(judge(c.slo, record), c.result);
  }
}

TEST(Slo, AServedStreamHasToMeetEveryThreshold) {
  check(streamed(), {
                        {"equal to the threshold: met", ttft_client(0.102), {}, good},
                        {"a nanosecond above", ttft_client(0.101999999), {}, bad},
                        {"ttft", ttft(0.1), {}, good},
                        {"ttft missed", ttft(0.099), {}, bad},
                        {"tpot", tpot(0.01), {}, good},
                        {"tpot missed", tpot(0.009), {}, bad},
                        {"e2e", e2e(1.102), {}, good},
                        {"e2e missed", e2e(1.1), {}, bad},
                        {"all", all(1, 1, 1, 2), {}, good},
                        {"all but the first", all(0.1, 1, 1, 2), {}, bad},
                        {"all but the last", all(1, 1, 1, 1), {}, bad},
                    });
}

TEST(Slo, AThresholdAppliesOnlyWhereItsFigureExists) {
  const auto one_token = [](RequestRecord& r) {
    r.answer.output_tokens = 1;
    r.answer.last_choice = r.answer.first_token;
  };
  const auto no_usage = [](RequestRecord& r) { r.answer.output_tokens.reset(); };
  const auto empty = [](RequestRecord& r) {
    r.outcome = Outcome::ok_empty;
    r.answer.first_token.reset();
    r.answer.output_tokens = 0;
  };
  check(streamed(), {
                        {"one token has no tpot", tpot(0.001), one_token, left_out},
                        {"the others still apply", all(1, 1, 0.001, 2), one_token, good},
                        {"an unknown number of tokens has no tpot", tpot(0.001), no_usage, left_out},
                        {"no token has no ttft", ttft_client(0.001), empty, left_out},
                        {"but a duration", e2e(0.001), empty, bad},
                    });
  check(unstreamed(), {
                          {"one document has a duration", e2e(1.103), {}, good},
                          {"and nothing else", all(0.001, 0.001, 0.001, 2), {}, good},
                          {"too late", e2e(1), {}, bad},
                          {"not what the objective is about", all(1, 1, 1, 2), {}, good},
                          {"no duration asked for", ttft_client(1), {}, left_out},
                          {"nor when it fails", tpot(1), [](auto& r) { r.outcome = Outcome::timeout; }, left_out},
                      });
}

TEST(Slo, OfSeveralChoicesEachHasToMeetTpot) {
  const auto second_takes = [](int ms) {
    return [ms](RequestRecord& r) {
      r.facts.n = 2;
      r.answer.choices = {{at(102), at(1102), 101, 1}, {at(102), at(102 + ms), 101, 1}};
    };
  };
  check(streamed(), {
                        {"both", tpot(0.01), second_takes(1000), good},
                        {"one of them", tpot(0.01), second_takes(1001), bad},
                        {"their counts are not known", tpot(0.001), [](auto& r) { r.facts.n = 2; }, left_out},
                    });
}

TEST(Slo, FailuresAreBadAndTheClientsOwnMistakesAreLeftOut) {
  const std::pair<Outcome, Result> outcomes[] = {{Outcome::ok, good},
                                                 {Outcome::ok_empty, good},
                                                 {Outcome::upstream_error, bad},
                                                 {Outcome::upstream_reset, bad},
                                                 {Outcome::truncated, bad},
                                                 {Outcome::timeout, bad},
                                                 {Outcome::replica_refused, bad},
                                                 {Outcome::client_error, left_out},
                                                 {Outcome::rejected, bad},
                                                 {Outcome::bad_request, left_out}};
  for (const auto& [outcome, result] : outcomes) {
    for (RequestRecord record : {streamed(), unstreamed()}) {
      record.outcome = outcome;
      EXPECT_EQ(judge(all(1, 1, 1, 2), record), result) << name_of(outcome);
    }
  }
  static_assert(std::size(outcomes) == outcome_names.size() - 1, "client_abort: below");
}

TEST(Slo, ARequestThatReachedNoReplicaIsJudgedByItsOutcome) {
  RequestRecord record;
  record.facts.stream = true;
  record.received = at(0);
  record.ended = at(1);
  record.outcome = Outcome::rejected;
  EXPECT_EQ(judge(ttft(1), record), bad);
  record.outcome = Outcome::bad_request;
  EXPECT_EQ(judge(ttft(1), record), left_out);
}

TEST(Slo, AClientThatLeavesCountsOnlyAfterAThresholdHadPassed) {
  const auto leaves_at = [](int ms) {
    return [ms](RequestRecord& r) {
      r.outcome = Outcome::client_abort;
      r.ended = at(ms);
      r.answer = Answer{};
    };
  };
  const auto queued = [](RequestRecord& r) {
    r.outcome = Outcome::client_abort;
    r.phase = Phase::queue;
    r.ended = at(5000);
    r.sent.reset();
    r.answer = Answer{};
  };
  const auto decoding = [](RequestRecord& r) {
    r.outcome = Outcome::client_abort;
    r.ended = at(600);
    r.answer.complete = Completeness::none;
    r.answer.last_choice = at(602 - 2);
  };
  const auto counted = [&](std::uint64_t n) {
    return [&decoding, n](RequestRecord& r) {
      decoding(r);
      r.answer.output_tokens.reset();
      r.answer.counted_tokens = n;
    };
  };
  const auto of_two_choices = [&](RequestRecord& r) {
    counted(11)(r);
    r.facts.n = 2;
  };
  const auto at_the_end = [](RequestRecord& r) { r.outcome = Outcome::client_abort; };
  check(streamed(), {
                        {"before the first token, in time", ttft_client(1), leaves_at(1000), left_out},
                        {"before the first token, too late", ttft_client(1), leaves_at(1001), bad},
                        {"ttft runs from the send at 2 ms", ttft(1), leaves_at(1002), left_out},
                        {"ttft had passed", ttft(1), leaves_at(1003), bad},
                        {"never sent: no ttft", ttft(1), queued, left_out},
                        {"never sent, but waited for", ttft_client(1), queued, bad},
                        {"tpot says nothing before a token", tpot(0.001), leaves_at(5000), left_out},
                        {"after a first token in time", ttft_client(0.102), decoding, left_out},
                        {"after a first token that was late", ttft_client(0.1), decoding, bad},
                        {"the whole had taken too long", e2e(0.5), decoding, bad},
                        {"the whole had not taken too long", e2e(0.6), decoding, left_out},
                        {"tokens that had come too slowly", tpot(0.01), counted(11), bad},
                        {"tokens that had come in time", tpot(0.01), counted(101), left_out},
                        {"one token, and the next was overdue", tpot(0.497), counted(1), bad},
                        {"one token, and the next was not due", tpot(0.498), counted(1), left_out},
                        {"whose tokens they were is not known", tpot(0.0001), of_two_choices, left_out},
                        {"after the end: a served request", all(1, 1, 1, 2), at_the_end, good},
                        {"after an end that was late", e2e(1), at_the_end, bad},
                    });
  check(unstreamed(), {
                          {"one document, in time", e2e(1), leaves_at(1000), left_out},
                          {"one document, too late", e2e(1), leaves_at(1001), bad},
                          {"no ttft is waited for", all(0.1, 0.1, 0.1, 2), leaves_at(1001), left_out},
                      });
}

}  // namespace
}  // namespace weir::metrics::record
