#include "metrics/record/request_record.hpp"

#include <gtest/gtest.h>

#include <functional>

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

}  // namespace
}  // namespace weir::metrics::record
