#include "proxy/compare/reporting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::proxy::compare {
namespace {

namespace mc = metrics::compare;
using ::testing::HasSubstr;

constexpr std::int64_t second = 1'000'000;

TEST(KvTokens, AreThoseOfTheReplicaAndElseOfItsConfiguration) {
  metrics::compare::samples::Names names;
  const auto held = kv_tokens_of({{"cand0", 300}, {"cand1", 200}, {"int4", 1000}}, names);
  EXPECT_EQ(held(names.of("cand0"), names.of("int4")), 300u);
  EXPECT_EQ(held(names.of("cand1"), names.of("fp8")), 200u);
  EXPECT_EQ(held(names.of("10.0.0.1:8000"), names.of("int4")), 1000u) << "it is an address of a name";
  EXPECT_EQ(held(names.of("removed"), names.of("fp8")), std::nullopt);
}

/// Half an hour of requests of two configurations, one each a second, from `begin` on.
class ReportOn : public ::testing::Test {
 protected:
  static constexpr std::int64_t begin = 1'795'219'200 * second, half_an_hour = 1800 * second;

  ReportOn() {
    for (std::int64_t at_us = begin; at_us < begin + half_an_hour; at_us += second) {
      for (const auto* const config : {"fp16", "fp8"}) {
        mc::samples::Sample sample;
        sample.received_us = sample.dispatched_us = at_us;
        sample.id = {config == std::string_view("fp8") ? 2U : 1U, static_cast<std::uint64_t>(at_us)};
        sample.config = names_.of(config);
        sample.replica = names_.of(config);
        sample.served = true;
        sample.ttft = 0.1F;
        selecting_.add(sample);
      }
    }
  }
  /// Returns the codes of the notes, or the sentence.
  std::string told(std::optional<std::int64_t> from_s, std::optional<std::int64_t> to_s,
                   std::optional<std::int64_t> for_s = {}) {
    Request request;
    if (from_s) request.from = When{begin + *from_s * second, false};
    if (to_s) request.to = When{begin + *to_s * second, false};
    if (for_s) request.length_us = *for_s * second;
    const auto made = report_on(read_, names_, request, 0.02, {}, "", "");
    if (const auto* sentence = std::get_if<std::string>(&made)) return *sentence;
    std::string codes;
    for (const auto& note : std::get<mc::report::Report>(made).notes) codes += note.code + ' ';
    return codes;
  }

  mc::samples::Names names_;
  ReadSamples read_;
  const Filter filter_;
  Selecting selecting_{filter_, names_, read_};
};

TEST_F(ReportOn, ATimeWithoutRequestsIsSaidWithTheirs) {
  const std::string there = "there are requests from 2026-11-21T00:00:00Z to 2026-11-21T00:29:59Z (30 min)";
  EXPECT_THAT(told(1800, {}), HasSubstr("which begins at 2026-11-21T00:30:00Z: " + there));
  EXPECT_THAT(told({}, 0), HasSubstr("which ends at 2026-11-21T00:00:00Z: " + there));
  EXPECT_THAT(told(-3600, {}, 3600), HasSubstr("which ends at 2026-11-21T00:00:00Z: " + there));
  EXPECT_THAT(told(1200, 600), HasSubstr("is not before --to 2026-11-21T00:10:00Z: " + there));
}

TEST_F(ReportOn, AChoiceThatLeavesNothingIsSaid) {
  read_.samples.clear();
  EXPECT_EQ(told({}, {}),
            "None of the " + std::to_string(read_.requests) +
                " requests is of the pool, the model, the prompt_tokens and the time that were asked for");
}

TEST_F(ReportOn, ATimeThatGoesBeyondTheRequestsIsNoted) {
  EXPECT_EQ(told({}, {}), "not_paired ");
  EXPECT_EQ(told(0, 1800), "not_paired ");
  EXPECT_EQ(told(60, {}, 1500), "not_paired ");
  EXPECT_EQ(told(-86'400, {}), "not_paired beyond_requests ");
  EXPECT_EQ(told(0, {}, 7200), "not_paired beyond_requests ");
  EXPECT_EQ(told(-3600, 3600), "not_paired beyond_requests ");
}

/// The logs of one side each: nothing shows that they had the same load.
TEST_F(ReportOn, UnrelatedLogsAreNoted) {
  const auto sides_of = [&](const char* config) {
    return std::set<std::tuple<mc::samples::Names::Name, mc::samples::Names::Name, mc::samples::Names::Name,
                               metrics::Role>>{{names_.of(config), names_.of(config), 0, metrics::Role::primary}};
  };
  ReadLog one{"one.jsonl", 1800, begin, begin + half_an_hour, 0, sides_of("fp16")};
  ReadLog other{"other.jsonl", 1800, begin, begin + half_an_hour, 1, sides_of("fp8")};
  read_.logs = {one, other};
  EXPECT_EQ(told({}, {}), "not_paired unrelated_logs ");
  const auto made = std::get<mc::report::Report>(report_on(read_, names_, {}, 0.02, {}, "", ""));
  EXPECT_THAT(made.notes.back().sentence, HasSubstr("fp16 is in one of them and fp8 in the other"));
  read_.logs[1].run = 0;
  EXPECT_EQ(told({}, {}), "not_paired ") << "one goes on where the other ends";
  read_.logs[1].run = 1;
  read_.logs[0].sides.merge(sides_of("fp8"));
  const auto merged = std::get<mc::report::Report>(report_on(read_, names_, {}, 0.02, {}, "", ""));
  EXPECT_THAT(merged.notes.back().sentence, HasSubstr("one.jsonl (from 2026-11-21T00:00:00Z to 2026-11-21T00:30:00Z), "
                                                      "other.jsonl (from"));
  EXPECT_THAT(merged.notes.back().sentence, HasSubstr("Their requests are taken together."));
  read_.logs[1].sides = sides_of("elsewhere");
  EXPECT_EQ(told({}, {}), "not_paired ") << "the other log has neither side";
}

}  // namespace
}  // namespace weir::proxy::compare
