#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <optional>
#include <set>

#include "metrics/record/log_line.hpp"
#include "metrics/record/request_log.hpp"
#include "tests/unit/metrics/record/sample_record.hpp"

namespace weir::metrics::record {
namespace {

namespace json = boost::json;

json::object parsed(const RequestRecord& record, const std::string& instance = "weir-1") {
  return json::parse(log_line(record, instance)).as_object();
}

double number(const json::object& line, const char* key) { return line.at(key).to_number<double>(); }

bool has_type(const json::value& value, JsonType type) {
  switch (type) {
    case JsonType::text:
      return value.is_string();
    case JsonType::whole:
      return value.is_int64() || value.is_uint64();
    case JsonType::number:
      return value.is_number();
    case JsonType::flag:
      return value.is_bool();
    case JsonType::list:
      return value.is_array();
  }
  return false;
}

/// Checks that a line has the fields of the definition in their order, of their types, and null only where they may be.
void expect_as_defined(const json::object& line, bool is_shadows) {
  auto member = line.begin();
  for (const auto& field : log_fields()) {
    if (field.of_shadows && !is_shadows) continue;
    ASSERT_NE(member, line.end()) << field.name;
    const auto& [name, value] = *member++;
    ASSERT_EQ(std::string_view(name), field.name);
    EXPECT_TRUE(value.is_null() ? !field.null_when.empty() : has_type(value, field.type)) << field.name;
    if (!field.words.empty() && value.is_string())
      EXPECT_NE(std::ranges::find(field.words, std::string_view(value.as_string())), field.words.end()) << field.name;
  }
  EXPECT_EQ(member, line.end());
}

TEST(LogLine, HasTheFieldsOfTheDefinitionInTheirOrder) {
  for (const auto& record : {streamed(), unstreamed(), RequestRecord{}}) expect_as_defined(parsed(record), false);
}

TEST(LogLine, SaysWhatTheRecordSays) {
  const RequestRecord record = streamed();
  const json::object line = parsed(record);
  const json::object words{{"v", 1},
                           {"time", "2026-11-21T07:00:05.123456Z"},
                           {"id", "00112233445566778899aabbccddeeff"},
                           {"client_id", "req-7.a_B"},
                           {"pair", nullptr},
                           {"group", nullptr},
                           {"key", "alice"},
                           {"instance", "weir-1"},
                           {"role", "primary"},
                           {"pool", "chat"},
                           {"replica", "gpu0"},
                           {"config", "vllm-fp16"},
                           {"api", "openai.chat"},
                           {"model", "qwen2.5-7b"},
                           {"stream", true},
                           {"status", 200},
                           {"outcome", "ok"},
                           {"phase", nullptr},
                           {"finish_reason", "stop"},
                           {"attempt", 1},
                           {"max_tokens", 256},
                           {"n", 1},
                           {"greedy", false},
                           {"tools", false},
                           {"images", 0},
                           {"prompt_tokens", 550},
                           {"cached_tokens", 50},
                           {"prompt_tokens_estimate", 531},
                           {"prefix_predicted", 512},
                           {"prefix_best", 528},
                           {"output_tokens", 101},
                           {"tokens_source", "usage"},
                           {"reasoning_tokens", 40},
                           {"events", 104},
                           {"reads", 103},
                           {"k_source", "settled"},
                           {"complete", "marker"},
                           {"in_flight_at_start", 7},
                           {"prompt_chars", 2100},
                           {"output_chars", 620},
                           {"bytes_in", 2400},
                           {"bytes_out", 33000}};
  for (const auto& member : words) EXPECT_EQ(line.at(member.key()), member.value()) << member.key();

  const Figures figures = figures_of(record);
  const std::pair<const char*, double> times[] = {{"queue_s", *figures.queue},
                                                  {"ttfb_s", *figures.ttfb},
                                                  {"ttfc_s", *figures.ttfc},
                                                  {"ttft_s", *figures.ttft},
                                                  {"ttft_client_s", *figures.ttft_client},
                                                  {"ttfot_s", *figures.ttfot},
                                                  {"tpot_s", *figures.tpot},
                                                  {"ntpot_s", *figures.ntpot},
                                                  {"e2e_s", *figures.e2e},
                                                  {"wait_s", 0.001},
                                                  {"connect_s", 0.0007},
                                                  {"paused_s", 0},
                                                  {"overhead_max_s", 0.00004},
                                                  {"in_flight_mean", 7.4}};
  for (const auto& [key, value] : times) EXPECT_NEAR(number(line, key), value, 0.5e-9) << key;

  json::array bins;
  for (const auto& bin : record.answer.gaps.bins()) bins.push_back({bin.index, bin.count});
  EXPECT_EQ(line.at("gap_bins"), bins);
}

TEST(LogLine, SaysWhatWasCountedWhereNobodyToldIt) {
  RequestRecord record = streamed();
  record.answer.output_tokens.reset();
  record.answer.token_source = TokenSource::none;
  record.answer.counted_tokens = 7;
  EXPECT_EQ(parsed(record).at("output_tokens"), 7);
  EXPECT_EQ(parsed(record).at("tokens_source"), "counted");
  EXPECT_TRUE(parsed(record).at("tpot_s").is_null()) << "what an event holds is not known";
  record.answer.counted_tokens = 0;
  EXPECT_TRUE(parsed(record).at("output_tokens").is_null());
  EXPECT_TRUE(parsed(record).at("tokens_source").is_null());
  record.answer.counted_tokens = 7;
  record.answer.output_tokens = 5;
  record.answer.token_source = TokenSource::usage;
  EXPECT_EQ(parsed(record).at("output_tokens"), 5);
  EXPECT_EQ(parsed(record).at("tokens_source"), "usage");
}

TEST(LogLine, HasTheEnginesOwnNumbersWhereItTellsThem) {
  RequestRecord record = streamed();
  const json::object silent = parsed(record);
  for (const auto& member : silent) {
    if (member.key().starts_with("engine_")) {
      EXPECT_TRUE(member.value().is_null()) << member.key();
    }
  }
  record.answer.engine = wire::EngineFigures{0.25, 0.125, 0.375, 1.5, 2, 0.015625, 40, 30};
  record.answer.coalesced_reads = 7;
  record.suspect = true;
  record.replica_status = 429;
  const json::object line = parsed(record);
  EXPECT_EQ(number(line, "engine_queue_s"), 0.25);
  EXPECT_EQ(number(line, "engine_prefill_s"), 0.125);
  EXPECT_EQ(number(line, "engine_ttft_s"), 0.375);
  EXPECT_EQ(number(line, "engine_decode_s"), 1.5);
  EXPECT_EQ(number(line, "engine_total_s"), 2);
  EXPECT_EQ(number(line, "engine_time_per_token_s"), 0.015625);
  EXPECT_EQ(line.at("engine_draft_tokens"), 40);
  EXPECT_EQ(line.at("engine_draft_accepted_tokens"), 30);
  EXPECT_EQ(line.at("coalesced_reads"), 7);
  EXPECT_EQ(line.at("suspect"), true);
  EXPECT_EQ(line.at("replica_status"), 429);
}

RequestRecord mirrored() {
  auto record = streamed();
  record.role = Role::shadow;
  record.facts.conversation = 0x9f2c;
  record.facts.user_messages = 3;
  auto& of = record.mirrored.make();
  of.pair = "1234";
  of.shadow = "fp8";
  of.joined = true;
  of.same_text = false;
  of.common_prefix_bytes = 128;
  of.same_tools = true;
  of.valid_tools = true;
  of.primary_valid_tools = false;
  return record;
}

TEST(LogLine, OfAShadowNamesItsPrimaryAndWhatTheyHaveInCommon) {
  auto record = mirrored();
  const auto line = parsed(record);
  expect_as_defined(line, true);
  EXPECT_EQ(text(line, "role"), "shadow");
  EXPECT_EQ(text(line, "pair"), "1234");
  EXPECT_EQ(text(line, "group"), "0000000000009f2c");
  EXPECT_EQ(line.at("turn"), 3);
  EXPECT_EQ(text(line, "shadow"), "fp8");
  EXPECT_TRUE(line.at("drop_reason").is_null());
  EXPECT_EQ(text(line, "pair_status"), "joined");
  EXPECT_EQ(line.at("same_text"), false);
  EXPECT_EQ(line.at("common_prefix_bytes"), 128);
  EXPECT_EQ(line.at("same_tools"), true);
  EXPECT_EQ(line.at("valid_tools"), true);
  EXPECT_EQ(line.at("primary_valid_tools"), false);
  record.mirrored = Mirrored{.pair = "1234", .shadow = "fp8", .drop_reason = "behind"};
  const auto dropped = parsed(record);
  EXPECT_EQ(text(dropped, "drop_reason"), "behind");
  EXPECT_EQ(text(dropped, "pair_status"), "pair_missing");
  for (const char* const key : {"same_text", "common_prefix_bytes", "same_tools", "valid_tools"})
    EXPECT_TRUE(dropped.at(key).is_null()) << key;
}

TEST(LogLine, HasTheMarksOfAPromptWhereThereAreSome) {
  RequestRecord record = streamed();
  EXPECT_TRUE(parsed(record).at("prefixes").is_null());
  record.prefixes.make() = {{256, 7}, {4'000'000'000'000, 4'294'967'295}};
  EXPECT_EQ(parsed(record).at("prefixes"), (json::array{{256, 7}, {4'000'000'000'000, 4'294'967'295}}));
}

TEST(LogLine, WritesNumbersShort) {
  const std::string line = log_line(streamed(), "weir-1");
  for (const char* text : {R"("queue_s":0.002,)", R"("ttft_client_s":0.102,)", R"("e2e_s":1.102,)", R"("paused_s":0,)",
                           R"("overhead_max_s":0.00004,)", R"("in_flight_mean":7.4,)", R"("ntpot_s":0.010910891,)"}) {
    EXPECT_THAT(line, testing::HasSubstr(text));
  }
}

TEST(LogLine, SaysNullForWhatIsNoNumber) {
  RequestRecord record = streamed();
  for (const double value : {std::nan(""), HUGE_VAL, -1.0}) {
    record.in_flight_mean = value;
    EXPECT_TRUE(parsed(record).at("in_flight_mean").is_null()) << value;
  }
}

/// Says of a request that was refused at once what it knows, and null for all else.
TEST(LogLine, SaysNullWhereNothingIsKnown) {
  RequestRecord record;
  record.outcome = Outcome::bad_request;
  const json::object line = parsed(record);
  const std::set<std::string_view> known{
      "v",      "time",     "id",        "instance",       "role",   "api",   "stream", "outcome",  "attempt",
      "n",      "greedy",   "tools",     "images",         "events", "reads", "wait_s", "paused_s", "suspect",
      "served", "bytes_in", "bytes_out", "coalesced_reads"};
  for (const auto& field : log_fields()) {
    if (!field.of_shadows) EXPECT_EQ(!line.at(field.name).is_null(), known.contains(field.name)) << field.name;
  }
  EXPECT_EQ(line.at("outcome"), "bad_request");
  EXPECT_EQ(line.at("attempt"), 0);
}

TEST(LogLine, GivesGapBinsToStreamsOnly) {
  RequestRecord record = streamed();
  record.answer.gaps = {};
  EXPECT_EQ(parsed(record).at("gap_bins"), json::array{});
  EXPECT_TRUE(parsed(unstreamed()).at("gap_bins").is_null());
}

TEST(LogLine, NamesThePhaseOfAnAbort) {
  RequestRecord record = streamed();
  record.outcome = Outcome::client_abort;
  for (std::size_t p = 0; p < phase_names.size(); ++p) {
    record.phase = static_cast<Phase>(p);
    EXPECT_EQ(text(parsed(record), "phase"), phase_names[p]);
  }
}

TEST(LogLine, DoesNotClaimToKnowTheTextOfAnAnswerItCouldNotRead) {
  RequestRecord record = streamed();
  record.answer.unparsed = true;
  EXPECT_TRUE(parsed(record).at("output_chars").is_null());
}

TEST(LogLine, DoesNotClaimToKnowTheTextsOfAnUnknownApi) {
  RequestRecord record = streamed();
  record.facts.api = Api::other;
  EXPECT_TRUE(parsed(record).at("prompt_chars").is_null());
  EXPECT_TRUE(parsed(record).at("output_chars").is_null());
}

TEST(LogLine, WritesTheFirstMicrosecondsOfADay) {
  using namespace std::chrono;
  RequestRecord record;
  record.time = sys_days{2027y / January / 1} + 7us + 900ns;
  EXPECT_EQ(parsed(record).at("time"), "2027-01-01T00:00:00.000007Z");
  record.time = sys_days{2028y / February / 29} + 23h + 59min + 59s + 999999us;
  EXPECT_EQ(parsed(record).at("time"), "2028-02-29T23:59:59.999999Z");
}

TEST(LogLine, EscapesWhatAClientCallsItsModel) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain/name-7b", "plain/name-7b"},
      {"a\"b\\c", "a\"b\\c"},
      {std::string("nul\0tab\tnl\ncr\r\x1f", 15), std::string("nul\0tab\tnl\ncr\r\x1f", 15)},
      {"\x7f", "\x7f"},
      {"caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x9a\x80", "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x9a\x80"},
      // Broken UTF-8 gives one U+FFFD for each longest part that might have become a code point.
      {"\x80", "\xef\xbf\xbd"},
      {"a\xff\xfe"
       "b",
       "a\xef\xbf\xbd\xef\xbf\xbd"
       "b"},
      {"cut \xe6\xbc", "cut \xef\xbf\xbd"},
      {"cut \xf0\x9f\x9a", "cut \xef\xbf\xbd"},
      {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                                  // It is overlong.
      {"\xe0\x9f\xbf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                  // It is overlong.
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                  // It is a surrogate.
      {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},  // It is above U+10FFFF.
      {"\xe6\xbc\xe6\xbc\xa2", "\xef\xbf\xbd\xe6\xbc\xa2"},
  };
  for (const auto& [model, expected] : cases) {
    RequestRecord record = streamed();
    record.facts.model = model;
    const std::string line = log_line(record, "weir-1");
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(text(json::parse(line).as_object(), "model"), expected);
  }
}

TEST(LogLine, EscapesItsInstance) { EXPECT_EQ(parsed(streamed(), "a\"b").at("instance"), "a\"b"); }

}  // namespace
}  // namespace weir::metrics::record
