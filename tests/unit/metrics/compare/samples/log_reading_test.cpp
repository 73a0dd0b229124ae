#include "metrics/compare/samples/log_reading.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "metrics/record/request_log.hpp"
#include "tests/unit/metrics/record/sample_record.hpp"

namespace weir::metrics::compare::samples {
namespace {

using record::at;
using record::RequestRecord;

LineKind read(std::string line, Names& names, Sample& sample) {
  const auto size = line.size();
  line.append(line_padding, ' ');
  return read_log_line(std::string_view(line).substr(0, size), names, sample);
}

void expect_near(float read, float made, const char* what) {
  if (std::isnan(made)) {
    EXPECT_TRUE(std::isnan(read)) << what;
  } else {
    EXPECT_NEAR(read, made, 1e-6F + 1e-6F * made) << what;
  }
}

/// `read` and `made` are of the same record.
void expect_equal(const Sample& read, const Names& read_names, const Sample& made, const Names& made_names) {
  EXPECT_EQ(read.received_us, made.received_us);
  EXPECT_NEAR(static_cast<double>(read.dispatched_us), static_cast<double>(made.dispatched_us), 1);
  EXPECT_EQ(read.id, made.id);
  EXPECT_EQ(read.pair, made.pair);
  for (const auto member : {&Sample::pool, &Sample::replica, &Sample::config, &Sample::model, &Sample::shadow,
                            &Sample::drop_reason, &Sample::finish_reason}) {
    EXPECT_EQ(read_names.text(read.*member), made_names.text(made.*member));
  }
  EXPECT_EQ(read.role, made.role);
  EXPECT_EQ(read.outcome, made.outcome);
  EXPECT_EQ(read.api, made.api);
  for (const auto member : {&Sample::stream, &Sample::greedy, &Sample::served, &Sample::gaps_are_itl})
    EXPECT_EQ(read.*member, made.*member);
  EXPECT_EQ(read.same_text, made.same_text);
  EXPECT_EQ(read.same_tools, made.same_tools);
  EXPECT_EQ(read.valid_tools, made.valid_tools);
  EXPECT_EQ(read.primary_valid_tools, made.primary_valid_tools);
  EXPECT_EQ(read.status, made.status);
  for (const auto member : {&Sample::turn, &Sample::prompt_tokens, &Sample::cached_tokens, &Sample::output_tokens,
                            &Sample::reasoning_tokens, &Sample::prompt_chars, &Sample::output_chars,
                            &Sample::common_prefix_bytes, &Sample::in_flight_at_start}) {
    EXPECT_EQ(read.*member, made.*member);
  }
  expect_near(read.ttft, made.ttft, "ttft");
  expect_near(read.ttft_client, made.ttft_client, "ttft_client");
  expect_near(read.tpot, made.tpot, "tpot");
  expect_near(read.e2e, made.e2e, "e2e");
  expect_near(read.lasted, made.lasted, "lasted");
  EXPECT_EQ(read.gaps, made.gaps);
  EXPECT_EQ(std::isnan(read.in_flight_mean), std::isnan(made.in_flight_mean));
  if (!std::isnan(made.in_flight_mean)) {
    EXPECT_NEAR(read.in_flight_mean, made.in_flight_mean, 0.0006);
  }
}

/// Makes records in which every member is there or not, by chance.
class AnyRecord {
 public:
  explicit AnyRecord(unsigned seed) : random_(seed) {}

  RequestRecord operator()() {
    RequestRecord record;
    record.time = std::chrono::system_clock::time_point(std::chrono::microseconds(below(4'000'000'000'000'000)));
    record.id = hex();
    record.client_id = maybe() ? "c" : "";
    record.pool = text();
    record.replica = text();
    record.config = text();
    if (maybe()) {
      record.role = Role::shadow;
      auto& mirrored = record.mirrored.make();
      mirrored.pair = hex();
      mirrored.shadow = text();
      mirrored.drop_reason = maybe() ? "late_loop" : "";
      mirrored.joined = maybe();
      if (maybe()) mirrored.same_text = maybe();
      if (maybe()) mirrored.same_tools = maybe();
      if (maybe()) mirrored.valid_tools = maybe();
      if (maybe()) mirrored.primary_valid_tools = maybe();
      if (maybe()) mirrored.common_prefix_bytes = below(20000);
    }
    record.facts.api = static_cast<Api>(below(api_names.size()));
    record.facts.model = text();
    record.facts.stream = maybe();
    record.facts.greedy = maybe();
    record.facts.n = maybe() ? 1 : 2;
    record.facts.user_messages = static_cast<std::uint32_t>(below(4));
    record.facts.whole_json = maybe();
    record.facts.text.code_points[0] = below(100'000);
    if (maybe()) record.status = static_cast<unsigned>(200 + 100 * below(4));
    record.outcome = static_cast<Outcome>(below(outcome_names.size()));
    record.attempt = static_cast<std::uint32_t>(below(3));
    record.received = at(0);
    if (maybe()) record.sent = at(milliseconds());
    if (maybe()) record.ended = at(milliseconds() + 500);
    record.in_flight_at_start = static_cast<std::uint32_t>(below(200));
    record.in_flight_mean = static_cast<double>(below(200'000)) / 1000;
    auto& answer = record.answer;
    if (maybe()) answer.first_token = at(500 + milliseconds());
    if (maybe()) answer.last_choice = at(1500 + milliseconds());
    if (maybe()) answer.end = at(3000);
    answer.events = static_cast<std::uint32_t>(below(3));
    answer.token_events_in_different_reads = maybe();
    answer.tokens_per_event = static_cast<TokensPerEvent>(below(3));
    answer.complete = static_cast<Completeness>(below(5));
    answer.in_band_error = maybe();
    answer.unparsed = maybe();
    answer.output_chars = below(100'000);
    if (maybe()) answer.output_tokens = below(3000);
    if (maybe()) answer.reasoning_tokens = below(3000);
    if (maybe()) answer.counted_tokens = below(3000);
    if (maybe()) answer.prompt_tokens = below(1ULL << 33);
    if (maybe()) answer.cached_tokens = below(100'000);
    for (auto gap = below(5); gap > 0; --gap)
      answer.gaps.add(Nanoseconds(static_cast<std::int64_t>(below(5'000'000'000))),
                      1 + static_cast<std::uint32_t>(gap));
    answer.finish_reason = maybe() ? "stop" : "";
    return record;
  }

 private:
  std::uint64_t below(std::uint64_t end) { return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_); }
  bool maybe() { return below(2) == 1; }
  double milliseconds() { return static_cast<double>(below(1'000'000)) / 1000; }
  std::string hex() {
    if (below(8) == 0) return {};
    std::string digits;
    for (int i = 0; i < 32; ++i) digits += "0123456789abcdef"[below(16)];
    return digits;
  }
  std::string text() {
    static constexpr const char* texts[]{"", "gpu0", "a \"quoted\" \\ one", "модель", "\x01 control", "名前 🙂"};
    return texts[below(std::size(texts))];
  }
  std::mt19937_64 random_;
};

TEST(LogReading, ALineSaysWhatItsRecordSays) {
  AnyRecord any(8);
  Names read_names, made_names;
  std::size_t with_gaps = 0, shadows = 0, known = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto one = any();
    Sample sample;
    ASSERT_EQ(read(record::log_line(one, "weir-1"), read_names, sample), LineKind::request);
    const Sample made = sample_of(one, made_names);
    expect_equal(sample, read_names, made, made_names);
    if (HasFailure()) FAIL() << record::log_line(one, "weir-1");
    with_gaps += !made.gaps.empty();
    shadows += made.role == Role::shadow;
    known += !std::isnan(made.tpot) && made.served;
  }
  // The records were such that this means something.
  EXPECT_GT(with_gaps, 500U);
  EXPECT_GT(shadows, 500U);
  EXPECT_GT(known, 5U);
}

TEST(LogReading, MembersMayStandInAnyOrderAndUnknownOnesAreSkipped) {
  Names names;
  Sample sample;
  ASSERT_EQ(
      read(R"({"later":{"a":[1,{"b":null}]},"ttft_s":0.25,"outcome":"ok","role":"shadow","new":"x",)"
           R"("api":"openai.chat","gap_bins":[[412,140],[413,9]],"time":"2026-11-21T07:00:00.5Z","v":1,"served":true})",
           names, sample),
      LineKind::request);
  EXPECT_FLOAT_EQ(sample.ttft, 0.25F);
  EXPECT_EQ(sample.role, Role::shadow);
  EXPECT_TRUE(sample.served);
  EXPECT_EQ(sample.received_us, parse_rfc3339("2026-11-21T07:00:00Z").value() + 500'000);
  EXPECT_THAT(sample.gaps, ::testing::SizeIs(2));
  EXPECT_TRUE(std::isnan(sample.tpot));
  EXPECT_EQ(sample.prompt_tokens, unknown_count);
}

constexpr auto least = R"("v":1,"time":"2026-11-21T07:00:00Z","api":"other","outcome":"ok")";

/// Such a duration would move the window by years, and no minute would be known.
TEST(LogReading, WhatLastsLongerThanAWeekIsAMistake) {
  Names names;
  Sample sample;
  ASSERT_EQ(read('{' + std::string(least) + R"(,"queue_s":1e9,"lasted_s":604801,"e2e_s":604800})", names, sample),
            LineKind::request);
  EXPECT_EQ(sample.dispatched_us, sample.received_us);
  EXPECT_TRUE(std::isnan(sample.lasted));
  EXPECT_EQ(sample.e2e, 604800);
  EXPECT_EQ(microseconds_of(1e9), std::int64_t{604800} * 1'000'000);
}

TEST(LogReading, AValueOfTheWrongTypeIsUnknown) {
  Names names;
  Sample sample;
  const std::string wrong =
      R"(,"ttft_s":"soon","prompt_tokens":-3,"output_tokens":2.5,"model":7,"stream":"yes","id":[1],)"
      R"("e2e_s":-1,"gap_bins":[[1,2],["x"]],"pool":{"a":1},"status":70000,"tpot_s":0.5)";
  ASSERT_EQ(read('{' + std::string(least) + wrong + '}', names, sample), LineKind::request);
  EXPECT_TRUE(std::isnan(sample.ttft));
  EXPECT_TRUE(std::isnan(sample.e2e));
  EXPECT_EQ(sample.prompt_tokens, unknown_count);
  EXPECT_EQ(sample.output_tokens, unknown_count);
  EXPECT_EQ(sample.model, 0U);
  EXPECT_EQ(sample.pool, 0U);
  EXPECT_EQ(sample.status, 0);
  EXPECT_FALSE(sample.stream);
  EXPECT_FLOAT_EQ(sample.tpot, 0.5F);
}

TEST(LogReading, WhatIsNoLineOfTheLogIsTold) {
  const std::string right = '{' + std::string(least) + '}';
  const struct {
    std::string line;
    LineKind kind;
  } cases[]{
      {right, LineKind::request},
      {"", LineKind::broken},
      {"{", LineKind::broken},
      {right.substr(0, right.size() - 1), LineKind::broken},
      {right + " {}", LineKind::broken},
      {"[1]", LineKind::broken},
      {"weir: started", LineKind::broken},
      {"{\"v\":1,\"model\":\"\xff\"}", LineKind::broken},
      {"{}", LineKind::foreign},
      {R"({"level":"info","message":"hello"})", LineKind::foreign},
      {R"({"v":2,"time":"2026-11-21T07:00:00Z","api":"other","outcome":"ok"})", LineKind::foreign},
      {R"({"v":1,"time":"yesterday","api":"other","outcome":"ok"})", LineKind::foreign},
      {R"({"v":1,"time":"2026-11-21T07:00:00Z","api":"other","outcome":"splendid"})", LineKind::foreign},
      {R"({"v":1,"time":"2026-11-21T07:00:00Z","api":"telnet","outcome":"ok"})", LineKind::foreign},
  };
  Names names;
  Sample sample;
  for (const auto& [line, kind] : cases) EXPECT_EQ(read(line, names, sample), kind) << line;
}

TEST(LogReading, ALineThatIsTooLongIsBroken) {
  Names names;
  Sample sample;
  const auto with = [&](std::size_t size) {
    std::string line = '{' + std::string(least) + R"(,"x":")";
    line.append(size - line.size() - 2, 'x');
    return read(line + "\"}", names, sample);
  };
  EXPECT_EQ(with(longest_line), LineKind::request);
  EXPECT_EQ(with(longest_line + 1), LineKind::broken);
}

TEST(LogReading, LinesWithoutServedTellItByTheirOutcome) {
  Names names;
  Sample sample;
  const struct {
    const char* rest;
    bool served;
  } cases[]{{R"("outcome":"ok")", true},
            {R"("outcome":"ok_empty")", true},
            {R"("outcome":"truncated","complete":"eof")", false},
            {R"("outcome":"client_abort","complete":"marker","status":200)", true},
            {R"("outcome":"client_abort","complete":null,"status":200)", false},
            {R"("outcome":"client_abort","complete":"framing","status":500)", false},
            {R"("outcome":"ok","served":false)", false}};
  for (const auto& [rest, served] : cases) {
    ASSERT_EQ(read(R"({"v":1,"time":"2026-11-21T07:00:00Z","api":"other",)" + std::string(rest) + '}', names, sample),
              LineKind::request);
    EXPECT_EQ(sample.served, served) << rest;
  }
}

TEST(LogReading, BrokenBytesDoNoHarm) {
  AnyRecord any(8);
  std::mt19937 random(9);
  std::size_t kinds[3]{};
  for (int i = 0; i < 3000; ++i) {
    auto line = record::log_line(any(), "weir-1");
    for (auto changes = random() % 4; changes > 0; --changes) {
      const auto at = random() % line.size();
      switch (random() % 3) {
        case 0:
          line[at] = static_cast<char>(random());
          break;
        case 1:
          line.erase(at, 1 + random() % 20);
          break;
        default:
          line.insert(at, 1, "{}[]\",:0\\"[random() % 9]);
      }
      if (line.empty()) break;
    }
    Names names;
    Sample sample;
    const auto kind = read(line, names, sample);
    ++kinds[static_cast<std::size_t>(kind)];
    if (kind == LineKind::request) {
      EXPECT_GT(sample.received_us, 0);
    }
  }
  for (const auto count : kinds) EXPECT_GT(count, 5U);
}

TEST(Rfc3339, ReadsMomentsOfAnyOffset) {
  const auto midnight = parse_rfc3339("2026-11-21T00:00:00Z").value();
  EXPECT_EQ(midnight, 1795219200'000'000);
  EXPECT_EQ(parse_rfc3339("2026-11-21t00:00:00.1234567z"), midnight + 123'456);
  EXPECT_EQ(parse_rfc3339("2026-11-21 02:30:00+02:30"), midnight);
  EXPECT_EQ(parse_rfc3339("2026-11-20T23:00:00-01:00"), midnight);
  EXPECT_EQ(parse_rfc3339("2026-11-20T23:59:60Z"), midnight - 1'000'000);
  for (const auto* const wrong :
       {"", "2026-11-21", "2026-11-21T00:00:00", "2026-13-21T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-21T24:00:00Z",
        "2026-11-21T00:00:00.Z", "2026-11-21T00:00:00Zz", "2026-11-21T00:00:00+1", "26-11-21T00:00:00Z"}) {
    EXPECT_EQ(parse_rfc3339(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(format_rfc3339(midnight + 3'661'999'999), "2026-11-21T01:01:01Z");
}

}  // namespace
}  // namespace weir::metrics::compare::samples
