// weir edits a request so that the replica tells its token counts, and nothing else of it changes.
#include "metrics/wire/request/edits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/metrics/wire/request/request_facts.hpp"

namespace weir::metrics::wire {
namespace {

struct Edited {
  std::string body;
  Ask asked;
};

Edited edited(Ask ask, const std::string& body, Api api = chat) {
  const RequestFacts facts = facts_of(api, body);
  const RequestEdits edits = edits_that_ask(ask, facts, body);
  std::vector<std::string_view> spans;
  edits.append(body, spans);
  std::string joined;
  for (const std::string_view span : spans) joined += span;
  EXPECT_EQ(joined.size(), edits.size_of(body.size())) << "Content-Length follows: " << body;
  EXPECT_EQ(edits.asked == Ask::nothing, edits.empty()) << body;
  return {joined, edits.asked};
}

std::string with_options(const std::string& options) {
  return R"({"model":"m","stream_options":)" + options + R"(,"stream":true})";
}

TEST(RequestEdits, PutTheOptionInFrontWhereTheClientSentNone) {
  const std::string blank = " {\n \"model\":\"m\", \"stream\":true}";
  EXPECT_EQ(edited(Ask::usage, blank).body,
            " {\"stream_options\":{\"include_usage\":true},\n \"model\":\"m\", \"stream\":true}");
  EXPECT_EQ(edited(Ask::usage_on_every_chunk, R"({"stream":true})", completions).body,
            R"({"stream_options":{"include_usage":true,"continuous_usage_stats":true},"stream":true})");
  EXPECT_EQ(edited(Ask::timings_on_every_chunk, R"({"stream":true})").body,
            R"({"timings_per_token":true,"stream":true})");
}

/// Returns the body with these members set; "refused" if weir does not set them.
std::string with_set(const std::string& body, std::initializer_list<std::pair<std::string, std::string>> members) {
  std::vector<std::string> wholes;
  std::vector<SetMember> wanted;
  for (const auto& [key, json] : members) wholes.push_back('"' + key + "\":" + json + ',');
  std::size_t i = 0;
  for (const auto& [key, json] : members) wanted.push_back({key, json, wholes[i++]});
  const auto edits = edits_that_set(wanted, facts_of(chat, body), body);
  if (!edits) return "refused";
  std::vector<std::string_view> spans;
  append_edited(body, *edits, spans);
  std::string joined;
  for (const auto span : spans) joined += span;
  EXPECT_EQ(joined.size(), edited_size(body.size(), *edits));
  return joined;
}

TEST(RequestEdits, SetMembersInPlaceOrInFront) {
  EXPECT_EQ(with_set(R"({"model":"m","n":1})", {{"model", "\"m8\""}}), R"({"model":"m8","n":1})");
  EXPECT_EQ(with_set(R"({ "a":{"model":"x"}, "model" : "m" })", {{"model", "\"m8\""}}),
            R"({ "a":{"model":"x"}, "model" : "m8" })");
  EXPECT_EQ(with_set(R"({"messages":["}\"","model"]})", {{"model", "\"m8\""}}),
            R"({"model":"m8","messages":["}\"","model"]})");
  EXPECT_EQ(with_set(R"({"b":[1,{"c":2}],"a":null})", {{"a", "true"}, {"b", "0.5"}, {"d", "7"}}),
            R"({"d":7,"b":0.5,"a":true})");
  EXPECT_EQ(with_set(R"({"a":1})", {}), R"({"a":1})");
  EXPECT_EQ(with_set(R"({"a":1,"a":2})", {{"a", "3"}}), "refused") << "engines differ in which one counts";
  EXPECT_EQ(with_set(R"({"\u0061":1})", {{"a", "3"}}), "refused");
  EXPECT_EQ(with_set("[]", {{"a", "3"}}), "refused");
  EXPECT_EQ(with_set("{}", {{"a", "3"}}), "refused");
}

TEST(RequestEdits, TurnUsageOnInTheOptionsThatTheClientSent) {
  struct {
    std::string sent, usage, every_chunk;
  } const cases[] = {
      {"null", R"({"include_usage":true})", R"({"include_usage":true,"continuous_usage_stats":true})"},
      {"{}", R"({"include_usage":true})", R"({"include_usage":true,"continuous_usage_stats":true})"},
      {"{ }", R"({"include_usage":true })", R"({"include_usage":true,"continuous_usage_stats":true })"},
      {R"({"include_usage":false})", R"({"include_usage":true})",
       R"({"continuous_usage_stats":true,"include_usage":true})"},
      {R"({"include_usage": null })", R"({"include_usage": true })",
       R"({"continuous_usage_stats":true,"include_usage": true })"},
      {R"({"x":[{"include_usage":1}],"y":"}\\"})", R"({"include_usage":true,"x":[{"include_usage":1}],"y":"}\\"})",
       R"({"include_usage":true,"continuous_usage_stats":true,"x":[{"include_usage":1}],"y":"}\\"})"},
      {R"({"continuous_usage_stats":false})", R"({"include_usage":true,"continuous_usage_stats":false})",
       R"({"include_usage":true,"continuous_usage_stats":true})"},
      {R"({"include_usage":false,"continuous_usage_stats":null})",
       R"({"include_usage":true,"continuous_usage_stats":null})",
       R"({"include_usage":true,"continuous_usage_stats":true})"},
      {R"({"continuous_usage_stats":false,"a":1,"include_usage":false})",
       R"({"continuous_usage_stats":false,"a":1,"include_usage":true})",
       R"({"continuous_usage_stats":true,"a":1,"include_usage":true})"},
  };
  for (const auto& one : cases) {
    for (const Api api : {chat, completions}) {
      const Edited usage = edited(Ask::usage, with_options(one.sent), api);
      EXPECT_EQ(usage.body, with_options(one.usage));
      EXPECT_EQ(usage.asked, Ask::usage) << one.sent;
      const Edited every_chunk = edited(Ask::usage_on_every_chunk, with_options(one.sent), api);
      EXPECT_EQ(every_chunk.body, with_options(one.every_chunk));
      EXPECT_EQ(every_chunk.asked, Ask::usage_on_every_chunk) << one.sent;
      for (const Edited& one_edited : {usage, every_chunk}) {
        const RequestFacts after = facts_of(api, one_edited.body);
        EXPECT_TRUE(after.whole_json) << one_edited.body;
        EXPECT_TRUE(after.usage_requested) << one_edited.body;
      }
    }
  }
}

TEST(RequestEdits, LeaveUsageOnEveryChunkWithoutUsageToTheReplica) {
  for (const std::string options :
       {R"({"continuous_usage_stats":true})", R"({"include_usage":false,"continuous_usage_stats":true})"}) {
    for (const Ask ask : {Ask::usage, Ask::usage_on_every_chunk}) {
      const Edited same = edited(ask, with_options(options));
      EXPECT_EQ(same.body, with_options(options));
      EXPECT_EQ(same.asked, Ask::nothing);
    }
  }
}

TEST(RequestEdits, DoNotWalkALongBody) {
  const auto of_size = [](std::size_t size) {
    const std::string frame = R"({"stream":true,"a":"","stream_options":null})";
    return R"({"stream":true,"a":")" + std::string(size - frame.size(), 'x') + R"(","stream_options":null})";
  };
  EXPECT_EQ(edited(Ask::usage, of_size(256 * 1024)).asked, Ask::usage);
  EXPECT_EQ(edited(Ask::usage, of_size(256 * 1024 + 1)).asked, Ask::nothing);
}

TEST(RequestEdits, FindTheOptionsWhateverStandsBeforeThem) {
  const std::string before = R"({"a":"\"stream_options\":{}","b":{"stream_options":null},"c":[[],"]",{"d":"\\"}],)"
                             R"("messages":[{"content":"\"}{[,"}],"e":-1.5e3,"f":null)";
  const std::string behind = R"(,"stream":true , "g":[1,2]} )";
  EXPECT_EQ(edited(Ask::usage, before + R"( , "stream_options" : null)" + behind).body,
            before + R"( , "stream_options" : {"include_usage":true})" + behind);
  for (const std::string text : {R"(\\)", R"(\\\")", R"(\"\\)", R"(\",)", ""}) {
    const std::string escaped = R"({"a":")" + text + R"(","stream_options":)";
    EXPECT_EQ(edited(Ask::usage, escaped + R"(null,"stream":true})").body,
              escaped + R"({"include_usage":true},"stream":true})");
  }
  const std::string last = R"({"stream":true,"stream_options":{"include_usage":false}})";
  EXPECT_EQ(edited(Ask::usage, last).body, R"({"stream":true,"stream_options":{"include_usage":true}})");
}

TEST(RequestEdits, LeaveARequestAsItIsThatAsksItself) {
  for (const std::string options : {R"({"include_usage":true})", R"({"x":1,"include_usage":true})",
                                    R"({"include_usage":true,"continuous_usage_stats":false})"}) {
    for (const Ask ask : {Ask::usage, Ask::usage_on_every_chunk})
      EXPECT_EQ(edited(ask, with_options(options)).body, with_options(options));
  }
  for (const std::string value : {"true", "false"}) {
    const std::string body = R"({"stream":true,"timings_per_token":)" + value + "}";
    EXPECT_EQ(edited(Ask::timings_on_every_chunk, body).body, body);
  }
  // Usage and timings differ: llama.cpp's last chunk has its timings with usage or without.
  EXPECT_THAT(edited(Ask::timings_on_every_chunk, with_options(R"({"include_usage":true})")).body,
              testing::StartsWith(R"({"timings_per_token":true,)"));
}

TEST(RequestEdits, LeaveToTheReplicaWhatEnginesMayReadDifferently) {
  const std::string bodies[] = {
      with_options("7"),
      with_options(R"("yes")"),
      with_options("[]"),
      with_options("false"),
      with_options(R"({"include_usage":0})"),
      with_options(R"({"include_usage":"false"})"),
      with_options(R"({"continuous_usage_stats":1})"),
      with_options(R"({"include_usage":false,"continuous_usage_stats":"on"})"),
      with_options(R"({"include_usage":false,"include_usage":false})"),
      with_options(R"({"include_usage":true,"include_usage":false})"),
      with_options(R"({"continuous_usage_stats":false,"continuous_usage_stats":false})"),
      with_options(R"({"include\u005fusage":false})"),
      with_options("null").insert(1, R"("stream_options":{"include_usage":true},)"),
      R"({"stream":true,"stream\u005foptions":null})",
  };
  for (const std::string& body : bodies) {
    for (const Ask ask : {Ask::usage, Ask::usage_on_every_chunk}) EXPECT_EQ(edited(ask, body).body, body);
  }
}

TEST(RequestEdits, AreForOpenAiStreams) {
  for (const Ask ask : {Ask::nothing, Ask::usage, Ask::usage_on_every_chunk, Ask::timings_on_every_chunk}) {
    for (const std::string body : {R"({"stream":false})", "{}", R"({"stream":true,"stream_options":null)", "[]"})
      EXPECT_EQ(edited(ask, body).body, body);
    for (const Api api : {Api::other, responses, anthropic, tgi, sglang, llamacpp, kobold, ollama_chat}) {
      const std::string body = R"({"stream":true,"text":"a","stream_options":null})";
      EXPECT_EQ(edited(ask, body, api).body, body) << name_of(api);
    }
  }
  EXPECT_EQ(edited(Ask::nothing, R"({"stream":true})").body, R"({"stream":true})");
}

}  // namespace
}  // namespace weir::metrics::wire
