#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "metrics/record/log_line.hpp"
#include "metrics/record/request_log.hpp"
#include "tests/golden.hpp"
#include "tests/unit/metrics/record/sample_record.hpp"

namespace weir::metrics::record {
namespace {

namespace json = boost::json;

json::object parsed(const RequestRecord& record, const std::string& instance = "weir-1") {
  return json::parse(log_line(record, instance)).as_object();
}

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

TEST(LogLine, HasTheFieldsOfTheDefinitionInTheirOrder) {
  for (const auto& record : {streamed(), unstreamed(), RequestRecord{}}) expect_as_defined(parsed(record), false);
  expect_as_defined(parsed(mirrored()), true);
}

/// A stream; what its engine told beside; a shadow; a copy that was dropped; and a request that was refused at once.
TEST(LogLine, ReadsAsItsGoldenFile) {
  RequestRecord told = streamed(), dropped = mirrored(), refused;
  told.answer.engine = wire::EngineFigures{0.25, 0.125, 0.375, 1.5, 2, 0.015625, 40, 30};
  told.answer.coalesced_reads = 7;
  told.suspect = true;
  told.replica_status = 429;
  told.prefixes.make() = {{256, 7}, {4'000'000'000'000, 4'294'967'295}};
  dropped.mirrored = Mirrored{.pair = "1234", .shadow = "fp8", .drop_reason = "behind"};
  refused.outcome = Outcome::bad_request;
  const auto line = [](const RequestRecord& record) { return tests::legible(log_line(record, "weir-1")); };
  const auto usual = line(streamed()), shadow = line(mirrored());
  tests::expect_golden("log_lines.txt", usual + "\n" + tests::lines_beside(line(told), usual) + "\n" + shadow + "\n" +
                                            tests::lines_beside(line(dropped), shadow) + "\n" +
                                            tests::lines_beside(line(refused), usual));
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

TEST(LogLine, SaysNullForWhatIsNoNumber) {
  RequestRecord record = streamed();
  for (const double value : {std::nan(""), HUGE_VAL, -1.0}) {
    record.in_flight_mean = value;
    EXPECT_TRUE(parsed(record).at("in_flight_mean").is_null()) << value;
  }
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
