// Golden streams: each is played to a StreamMeter, and what came of it has to be what stands beside it in
// tests/data/streams (README.md there says how). No way of cutting a stream into reads changes that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"
#include "tests/unit/split_grid.hpp"

namespace weir::metrics::measure {
namespace {

namespace json = boost::json;
using record::Fingerprint;

constexpr SipKey key{3, 4};

struct Case {
  std::string name;
  StreamMeter::Options options;
  bool whole = true, framed = true;
  bool usage_event = false;  // It has the event that asking for usage brings.
  std::string body{}, forwarded{};
  json::object expected{};
  std::optional<json::value> said{};
};

Api api_of(std::string_view name) {
  const auto at = std::find(api_names.begin(), api_names.end(), name);
  if (at == api_names.end()) throw std::runtime_error("no API " + std::string(name));
  return static_cast<Api>(at - api_names.begin());
}

BodyForm form_of(std::string_view name) {
  constexpr std::string_view names[] = {"sse", "lines", "json", "opaque"};
  const auto at = std::find(std::begin(names), std::end(names), name);
  if (at == std::end(names)) throw std::runtime_error("no form " + std::string(name));
  return static_cast<BodyForm>(at - std::begin(names));
}

wire::Ask asked_of(std::string_view name) {
  if (name == "usage") return wire::Ask::usage;
  if (name == "continuous usage") return wire::Ask::usage_on_every_chunk;
  if (name == "timings") return wire::Ask::timings_on_every_chunk;
  throw std::runtime_error("nothing to strip is called " + std::string(name));
}

void take_given(Case& to, const json::object& given) {
  for (const auto& [name, value] : given) {
    if (name == "api")
      to.options.api = api_of(value.as_string());
    else if (name == "form")
      to.options.form = form_of(value.as_string());
    else if (name == "choices")
      to.options.choices = value.to_number<std::uint32_t>();
    else if (name == "prompts")
      to.options.prompts = value.to_number<std::uint32_t>();
    else if (name == "coded")
      to.options.coded = value.as_bool();
    else if (name == "strip")
      to.options.strip(asked_of(value.as_string()));
    else if (name == "whole")
      to.whole = value.as_bool();
    else if (name == "framed")
      to.framed = value.as_bool();
    else if (name == "usage_event")
      to.usage_event = value.as_bool();
    else
      throw std::runtime_error("nothing given is called " + std::string(name));
  }
}

void take_expected(Case& to, const json::object& expected) {
  to.expected = expected;
  if (const json::value* said = expected.if_contains("said")) {
    to.said = *said;
    to.expected.erase("said");
  }
}

/// A recorded stream has a file of its own, beside what is expected of it.
Case recorded(const std::filesystem::path& stream) {
  const bool lines = stream.extension() == ".ndjson";
  Case one{.name = stream.filename(), .options = options_for(chat, lines ? BodyForm::lines : BodyForm::sse)};
  one.body = one.forwarded = sample(one.name);
  const json::value about = json::parse(sample(stream.stem().string() + ".json"));
  take_given(one, about.at("given").as_object());
  take_expected(one, about.at("seen").as_object());
  return one;
}

/// A line of an event stream is an event: a blank line follows it. <LF> says that none does, <EOF> that not even a line
/// end.
std::string text_of(const std::string& line, bool event) {
  if (line.ends_with("<EOF>")) return line.substr(0, line.size() - 5);
  if (line.ends_with("<LF>")) return line.substr(0, line.size() - 4) + "\n";
  return line + (event ? "\n\n" : "\n");
}

/// Short streams stand behind one another in a file of theme: "=== name {given}", the body, ">>> forwarded" and what is
/// forwarded where that is not the body, "--- {expected}".
std::vector<Case> cases_of(const std::filesystem::path& file) {
  std::istringstream text(sample(file.filename()));
  std::vector<Case> all;
  std::string* block = nullptr;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("=== ")) {
      const std::size_t brace = std::min(line.find(" {"), line.size());
      Case one{.name = file.filename().string() + ": " + line.substr(4, brace - 4),
               .options = options_for(chat, file.stem() == "answers" ? BodyForm::json : BodyForm::sse)};
      if (brace < line.size()) take_given(one, json::parse(line.substr(brace)).as_object());
      const bool lines = one.options.api == Api::ollama_chat || one.options.api == Api::ollama_generate;
      if (lines && one.options.form == BodyForm::sse) one.options.form = BodyForm::lines;
      all.push_back(std::move(one));
      block = &all.back().body;
    } else if (line == ">>> forwarded") {
      block = &all.back().forwarded;
    } else if (line.starts_with("--- ")) {
      if (block == &all.back().body) all.back().forwarded = all.back().body;
      take_expected(all.back(), json::parse(line.substr(4)).as_object());
    } else {
      *block += text_of(line, all.back().options.form == BodyForm::sse);
    }
  }
  return all;
}

Fingerprint fingerprint_of(const json::value& said) {
  if (said.is_null()) return {};
  record::FingerprintMaker maker(key);
  const json::object& members = said.as_object();
  if (const auto* text = members.if_contains("text")) maker.text(text->as_string());
  if (const auto* reasoning = members.if_contains("reasoning")) maker.reasoning(reasoning->as_string());
  if (const auto* calls = members.if_contains("calls")) {
    for (const json::value& call : calls->as_array()) {
      maker.call_name(call.at(0).as_string());
      maker.call_arguments(call.at(1).as_string());
      maker.end_call();
    }
  }
  if (members.contains("lost")) maker.lost_text();
  return maker.finish();
}

StreamMeter::Options keyed(StreamMeter::Options options) {
  options.fingerprint_key = &key;
  return options;
}

/// Says member by member what differs, and all that was seen, as it would have to stand in the file.
std::string difference(const json::object& expected, const json::object& seen) {
  std::string text;
  const auto compare = [&](std::string_view member) {
    const json::value* wanted = expected.if_contains(member);
    const json::value* found = seen.if_contains(member);
    const auto written = [](const json::value* value) { return value ? json::serialize(*value) : "nothing"; };
    if (written(wanted) == written(found)) return;
    text += std::string(member) + ": expected " + written(wanted) + ", seen " + written(found) + "\n";
  };
  for (const auto& member : expected) compare(member.key());
  for (const auto& member : seen) {
    if (!expected.contains(member.key())) compare(member.key());
  }
  return text.empty() ? "" : text + "--- " + json::serialize(seen);
}

/// Returns all that a stream leaves behind if it comes in pieces of these sizes at one moment; the last size is
/// repeated.
std::string outcome(const Case& of, const StreamMeter::Options& options, std::string_view body,
                    const std::vector<std::size_t>& sizes) {
  Replay replay(keyed(options));
  for (std::size_t at = 0, piece = 0; at < body.size(); ++piece) {
    const std::size_t size = sizes[std::min(piece, sizes.size() - 1)];
    replay.feed(body.substr(at, size), start);
    at += size;
  }
  replay.end(of.whole, of.framed);
  const Fingerprint& print = *replay.answer().fingerprint;
  std::string text = words(replay) + "\nsaid";
  for (const std::uint64_t part : {print.text.hash, print.text.bytes, print.reasoning.hash})
    text += " " + std::to_string(part);
  for (const Fingerprint::Call& call : print.calls) text += " " + std::to_string(call.name ^ call.arguments);
  return text;
}

class StreamCases : public testing::TestWithParam<std::filesystem::path> {
 protected:
  std::vector<Case> cases() const {
    return GetParam().extension() == ".cases" ? cases_of(GetParam()) : std::vector{recorded(GetParam())};
  }
};

TEST_P(StreamCases, AreReadAsExpected) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const auto replay = replayed(one.body, one.options, one.whole, one.framed);
    EXPECT_EQ(difference(one.expected, seen(*replay)), "");
    EXPECT_EQ(replay->forwarded, one.forwarded);
    EXPECT_EQ(replay->answer().end, ms(1'000'000));
    EXPECT_EQ(*replay->answer().fingerprint, Fingerprint()) << "made where nobody asks for it";
    const auto with_key = replayed(one.body, keyed(one.options), one.whole, one.framed);
    EXPECT_EQ(difference(one.expected, seen(*with_key)), "") << "with a fingerprint";
    if (one.said) {
      EXPECT_EQ(*with_key->answer().fingerprint, fingerprint_of(*one.said));
    }
  }
}

TEST_P(StreamCases, AreTheSameHoweverTheyAreSplit) {
  for (const Case& one : cases()) {
    for (const wire::Ask asked : {wire::Ask::nothing, wire::Ask::usage}) {
      StreamMeter::Options options = one.options;
      if (asked != wire::Ask::nothing) {
        if (options.form != BodyForm::sse || options.strip_usage || options.strip_timings) continue;
        options.strip(asked);
      }
      const std::string wanted = outcome(one, options, one.body, {one.body.size()});
      for (std::size_t cut = 1; cut < one.body.size(); cut += split_step) {
        ASSERT_EQ(outcome(one, options, one.body, {cut, one.body.size()}), wanted) << one.name << " cut at " << cut;
      }
      ASSERT_EQ(outcome(one, options, one.body, {1}), wanted) << one.name << " byte by byte";
    }
  }
}

std::string with_line_end(std::string text, std::string_view line_end) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += line_end.size()) {
    text.replace(at, 1, line_end);
  }
  return text;
}

TEST_P(StreamCases, MayEndTheirLinesInEachWay) {
  for (const Case& one : cases()) {
    if (one.options.form != BodyForm::sse || one.body.find('\r') != std::string::npos) continue;
    for (const std::string_view line_end : {"\r", "\r\n"}) {
      SCOPED_TRACE(one.name);
      const auto replay = replayed(with_line_end(one.body, line_end), one.options, one.whole, one.framed);
      EXPECT_EQ(difference(one.expected, seen(*replay)), "");
      EXPECT_EQ(replay->forwarded, with_line_end(one.forwarded, line_end));
    }
  }
}

std::vector<std::filesystem::path> files(std::initializer_list<std::string_view> extensions) {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_TEST_DATA "/streams")) {
    const std::string extension = entry.path().extension();
    if (std::find(extensions.begin(), extensions.end(), extension) != extensions.end()) all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string stem(const testing::TestParamInfo<std::filesystem::path>& file) { return file.param.stem(); }

INSTANTIATE_TEST_SUITE_P(Files, StreamCases, testing::ValuesIn(files({".sse", ".ndjson", ".cases"})), stem);

class RecordedStreams : public testing::TestWithParam<std::filesystem::path> {
 protected:
  StreamMeter::Options stripping() const {
    StreamMeter::Options options = of_.options;
    options.strip_usage = true;
    return options;
  }
  /// Returns the stream without its usage events, found by looking at the text between blank lines.
  std::string without_usage() const {
    std::string body = of_.body;
    if (!of_.usage_event) return body;
    const std::string_view line_end = body.find("\r\n") != std::string::npos ? "\r\n"
                                      : body.find('\n') == std::string::npos ? "\r"
                                                                             : "\n";
    const std::string blank_line = std::string(line_end) + std::string(line_end);
    for (const std::string_view bare : {R"("choices":[],)", R"("choices":[{"index":0,"delta":{}}],)"}) {
      for (std::size_t inside = 0; (inside = body.find(bare)) != std::string::npos;) {
        const std::size_t before = body.rfind(blank_line, inside);
        const std::size_t behind = body.find(blank_line, inside);
        body.erase(before + blank_line.size(), behind - before);
      }
    }
    return body;
  }

  Case of_ = recorded(GetParam());
};

TEST_P(RecordedStreams, LoseTheirUsageEventAndNothingElse) {
  const std::string wanted = without_usage();
  ASSERT_EQ(wanted.size() < of_.body.size(), of_.usage_event);
  EXPECT_EQ(replayed(of_.body, stripping())->forwarded, wanted);
}

/// Bytes are changed, lost and doubled. Nobody knows what they then say, but every split says the same.
TEST_P(RecordedStreams, AreTheSameHoweverTheyAreSplitWhenDamaged) {
  std::uint64_t random = 7;
  const auto below = [&](std::size_t bound) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(random >> 33) % bound;
  };
  constexpr std::string_view odd = "\n\r\"\\{}[]:,0-n \xFF";
  for (int round = 0; round < 40; ++round) {
    std::string body = of_.body;
    for (std::size_t damages = 1 + below(3); damages > 0; --damages) {
      const std::size_t at = below(body.size());
      const std::size_t length = std::min(1 + below(40), body.size() - at);
      const std::size_t how = below(3);
      if (how == 0) body[at] = odd[below(odd.size())];
      if (how == 1) body.erase(at, length);
      if (how == 2) body.insert(at, body.substr(at, length));
    }
    const std::string wanted = outcome(of_, stripping(), body, {body.size()});
    std::vector<std::size_t> sizes(body.size() / 30 + 1);
    for (std::size_t& size : sizes) size = 1 + below(60);
    ASSERT_EQ(outcome(of_, stripping(), body, sizes), wanted) << "round " << round << ":\n" << body;
  }
}

TEST_P(RecordedStreams, ThatMayBreakOffLeaveTheClientAtAnEventBoundary) {
  const bool lines = of_.options.form == BodyForm::lines;
  const std::string stripped = without_usage();
  Replay held(stripping());
  Replay plain(of_.options);
  for (std::size_t size = 1; size <= of_.body.size(); ++size) {
    const std::string_view begun = std::string_view(of_.body).substr(0, size);
    held.feed(begun.substr(size - 1), start);
    // Lines are never held back, because nobody asks Ollama for usage.
    ASSERT_TRUE(lines || held.meter.at_event_boundary()) << "after " << size;
    ASSERT_TRUE(stripped.starts_with(held.forwarded)) << "after " << size;

    plain.feed(begun.substr(size - 1), start);
    const bool between = (lines && begun.ends_with("\n")) || begun.ends_with("\n\n") || begun.ends_with("\r\r") ||
                         begun.ends_with("\n\r\n") || begun.ends_with("\r\n\r");
    ASSERT_EQ(plain.meter.at_event_boundary(), between) << "after " << size;
  }
  const std::string sent = held.forwarded;
  held.end(false);
  EXPECT_EQ(held.forwarded, sent);
}

INSTANTIATE_TEST_SUITE_P(Files, RecordedStreams, testing::ValuesIn(files({".sse", ".ndjson"})), stem);

}  // namespace
}  // namespace weir::metrics::measure
