// The fingerprint of an answer depends on what the answer says, and not on its pieces, its escapes, its dialect, or on
// whether it is a stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"
#include "tests/unit/split_grid.hpp"

namespace weir::metrics::measure {
namespace {

using record::Fingerprint;

constexpr SipKey key{3, 4};

StreamMeter::Options keyed(Api api, BodyForm form) {
  StreamMeter::Options options = options_for(api, form);
  options.fingerprint_key = &key;
  return options;
}

Fingerprint fingerprint(Api api, BodyForm form, std::string_view body, std::size_t cut = 0) {
  Replay replay(keyed(api, form));
  replay.feed(body.substr(0, cut), start);
  replay.feed(body.substr(cut), start);
  replay.end();
  return *replay.answer().fingerprint;
}

Fingerprint bytewise(Api api, BodyForm form, std::string_view body) {
  Replay replay(keyed(api, form));
  for (const char& byte : body) replay.feed({&byte, 1}, start);
  replay.end();
  return *replay.answer().fingerprint;
}

struct Call {
  std::string name, arguments;
};

struct Said {
  const char* file;
  Api api;
  std::string text, reasoning;
  std::vector<Call> calls;
  std::string json;  // This whole answer says the same.

  BodyForm form() const { return std::string_view(file).ends_with(".ndjson") ? BodyForm::lines : BodyForm::sse; }
  Fingerprint wanted() const {
    record::FingerprintMaker maker(key);
    maker.text(text);
    maker.reasoning(reasoning);
    for (const Call& one : calls) {
      maker.call_name(one.name);
      maker.call_arguments(one.arguments);
      maker.end_call();
    }
    return maker.finish();
  }
  friend void PrintTo(const Said& said, std::ostream* out) { *out << said.file; }
};

std::string message(const std::string& members) {
  return R"({"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",)" + members +
         R"(},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}})";
}
std::string content(const std::string& text) { return message(R"("content":")" + text + "\""); }
std::string choice(const std::string& text) {
  return R"({"choices":[{"index":0,"text":")" + text + R"(","finish_reason":"stop"}]})";
}
std::string output(const std::string& items) {
  return R"({"object":"response","status":"completed","output":[)" + items + "]}";
}

const Said said_samples[] = {
    {"vllm_chat.sse", chat, "Hello! How are you?", "", {}, content("Hello! How are you?")},
    {"vllm_chat_continuous_usage.sse",
     chat,
     "The quick brown fox jumps over the lazy dog.",
     "",
     {},
     content(R"(The quick brown fox jumps over the lazy dog.)")},
    // The engines write reasoning before the text in a stream, and behind it in a whole answer.
    {"vllm_chat_metrics.sse",
     chat,
     "Hi!",
     "Hm",
     {},
     message(R"("content":"Hi!","reasoning":"Hm","reasoning_content":"Hm")")},
    {"vllm_completions.sse", completions, " Paris, of course.", "", {}, choice(" Paris, of course.")},
    {"sglang_chat.sse",
     chat,
     "It is 4.",
     "Okay, simple.",
     {},
     message(R"("content":"It is 4.","reasoning_content":"Okay, simple.","tool_calls":null)")},
    {"tgi_chat.sse", chat, "OK, sure", "", {}, content("OK, sure")},
    {"tgi_completions.sse", completions, "def main():", "", {}, choice("def main():")},
    {"tgi_generate_stream.sse",
     Api::tgi_generate,
     " Deep learning is a",
     "",
     {},
     R"({"generated_text":" Deep learning is a","details":{"finish_reason":"eos_token","generated_tokens":5}})"},
    {"llamacpp_chat.sse", chat, "Hello world!", "", {}, content("Hello world!")},
    {"llamacpp_chat_timings.sse", chat, "Hello the", "", {}, content("Hello the")},
    {"llamacpp_chat_timings_per_token.sse", chat, "aé \"timings\":{}", "", {}, content(R"(a\u00e9 \"timings\":{})")},
    {"llamacpp_completion.sse",
     Api::llamacpp_completion,
     "Hello there!",
     "",
     {},
     R"({"index":0,"content":"Hello there!","tokens":[],"stop":true,"stop_type":"eos","tokens_predicted":4})"},
    {"litellm_chat.sse", chat, "Hello", "", {}, content("Hello")},
    {"sglang_generate.sse",
     Api::sglang_generate,
     " Paris, which is a city.",
     "",
     {},
     R"({"text":" Paris, which is a city.","output_ids":[1,2],"meta_info":{"finish_reason":{"type":"stop"},"completion_tokens":8}})"},
    {"sglang_generate_incremental.sse",
     Api::sglang_generate,
     " Paris",
     "",
     {},
     R"({"text":" Paris","meta_info":{"finish_reason":{"type":"stop"},"completion_tokens":4}})"},
    {"responses_api.sse",
     responses,
     "Hi there!",
     "",
     {},
     output(
         R"({"id":"m","content":[{"annotations":[],"text":"Hi there!","type":"output_text"}],"role":"assistant","type":"message"})")},
    {"responses_incomplete.sse",
     responses,
     "One two",
     "",
     {},
     output(R"({"type":"message","content":[{"type":"output_text","text":"One two"}]})")},
    {"responses_tool_call.sse",
     responses,
     "Hm.",
     "",
     {{"f", R"({"a":1})"}},
     output(R"({"id":"r","summary":[],"type":"reasoning","content":[{"text":"Hm.","type":"reasoning_text"}]},
     {"arguments":"{\"a\": 1}","call_id":"c","name":"f","type":"function_call","status":"completed"})")},
    {"anthropic_messages.sse",
     anthropic,
     "Hello!",
     "",
     {},
     R"({"type":"message","content":[{"type":"text","text":"Hello!"}],"stop_reason":"end_turn"})"},
    {"anthropic_thinking_tool.sse",
     anthropic,
     "Let me see.I look.",
     "",
     {{"search", R"({"q":"x"})"}},
     R"({"type":"message","content":[{"type":"thinking","thinking":"Let me see.","signature":"x"},{"type":"text","text":
     "I look."},{"type":"tool_use","id":"t","name":"search","input":{ "q" : "x" }}],"stop_reason":"tool_use"})"},
    {"aphrodite_kobold_stream.sse",
     Api::kobold_generate,
     "Hello, café",
     "",
     {},
     R"({"results":[{"text":"Hello, caf\u00e9"}]})"},
    {"ollama_generate.ndjson", Api::ollama_generate, "The sky", "", {}, R"({"response":"The sky","done":true})"},
    {"ollama_chat.ndjson",
     Api::ollama_chat,
     "Su",
     "Okay,",
     {{"f", R"({"done":true})"}},
     R"({"message":{"role":"assistant","content":"Su","thinking":"Okay,","tool_calls":[{"function":{"name":"f",
     "arguments":{"done":true}}}]},"done":true,"done_reason":"stop"})"},
    {"edge_bom.sse", chat, "ab", "", {}, content("ab")},
    {"edge_comments_multiline.sse", chat, "ab", "", {}, content("ab")},
    {"edge_cr.sse", chat, "ab", "", {}, content("ab")},
    {"edge_crlf.sse", chat, "ab", "", {}, content("ab")},
    {"edge_no_final_blank_line.sse", chat, "ab", "", {}, content("ab")},
    {"edge_utf8.sse", chat, "日本🙂 naïve字", "", {}, content(R"(\u65e5本\ud83d\ude42 na\u00efve字)")},
};

class Fingerprints : public testing::TestWithParam<Said> {};

TEST_P(Fingerprints, OfAStreamAreThoseOfItsText) {
  const Said& said = GetParam();
  const Fingerprint found = fingerprint(said.api, said.form(), sample(said.file));
  EXPECT_TRUE(found.text_known);
  EXPECT_TRUE(found.calls_known);
  EXPECT_EQ(found, said.wanted());
}

TEST_P(Fingerprints, OfAWholeAnswerAreTheSame) {
  const Said& said = GetParam();
  EXPECT_EQ(fingerprint(said.api, BodyForm::json, said.json), said.wanted());
}

TEST_P(Fingerprints, AreTheSameHoweverTheBytesAreSplit) {
  const Said& said = GetParam();
  const Fingerprint wanted = said.wanted();
  const std::string stream = sample(said.file);
  for (std::size_t cut = 1; cut < stream.size(); cut += split_step)
    ASSERT_EQ(fingerprint(said.api, said.form(), stream, cut), wanted) << "cut at " << cut;
  ASSERT_EQ(bytewise(said.api, said.form(), stream), wanted);
  for (std::size_t cut = 1; cut < said.json.size(); ++cut)
    ASSERT_EQ(fingerprint(said.api, BodyForm::json, said.json, cut), wanted) << "cut at " << cut;
  ASSERT_EQ(bytewise(said.api, BodyForm::json, said.json), wanted);
}

TEST_P(Fingerprints, ChangeNothingElseThatIsMeasured) {
  const Said& said = GetParam();
  const auto with = replayed(sample(said.file), keyed(said.api, said.form()));
  const auto without = replayed(sample(said.file), options_for(said.api, said.form()));
  EXPECT_EQ(words(*with), words(*without));
  EXPECT_EQ(*without->answer().fingerprint, Fingerprint()) << "it is made only where it is asked for";
  EXPECT_NE(*with->answer().fingerprint, Fingerprint());
}

std::string stem_of_said(const testing::TestParamInfo<Said>& said) {
  const std::string file = said.param.file;
  return file.substr(0, file.find('.'));
}

INSTANTIATE_TEST_SUITE_P(Samples, Fingerprints, testing::ValuesIn(said_samples), stem_of_said);

/// Returns a chat of these deltas.
Fingerprint of_deltas(const std::vector<std::string>& deltas) {
  std::string body;
  for (const std::string& one : deltas) body += chunk(delta(one));
  return fingerprint(chat, BodyForm::sse, body + stop + done);
}
Fingerprint of_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> deltas;
  for (const std::string& text : texts) deltas.push_back(R"("content":")" + text + "\"");
  return of_deltas(deltas);
}
Fingerprint of_call(const std::string& name, const std::string& arguments) {
  record::FingerprintMaker maker(key);
  maker.call_name(name);
  maker.call_arguments(arguments);
  return maker.finish();
}

TEST(StreamMeterFingerprint, DoesNotDependOnWhereEventsOrEscapesAre) {
  // Events that have the shape of the one before are not parsed; the fourth of these begins a new shape.
  const std::string text = "one \"two\"\n\tthree 水 🙂 {\\}";
  const auto wanted = of_texts({R"(one \"two\"\n\tthree 水 🙂 {\\})"});
  record::FingerprintMaker maker(key);
  maker.text(text);
  EXPECT_EQ(wanted, maker.finish());
  EXPECT_EQ(of_texts({"o", "ne ", R"(\"two)", R"(\"\n)", R"(\tthr)", "ee ", "水", " 🙂 ", "{", R"(\\)", "}"}),
            wanted);
  EXPECT_EQ(of_texts({R"(\u006fne \u0022)", R"(two\")", R"(\u000a\u0009three )", R"(\u6C34)", "", R"( \ud83d\ude42 )",
                      R"({\u005c})"}),
            wanted);
  EXPECT_EQ(of_deltas({R"("content":"one \"")", R"("role":"assistant","content":"two\"\n")",
                       R"("content":"\tthree 水 🙂 {\\}")"}),
            wanted);
}

TEST(StreamMeterFingerprint, TakesEventsThatAreNotParsedAgain) {
  std::vector<std::string> texts;
  std::string text;
  for (int i = 0; i < 200; ++i) {
    texts.push_back(" t" + std::to_string(i));
    text += texts.back();
  }
  EXPECT_EQ(of_texts(texts).text.bytes, text.size());
  EXPECT_EQ(of_texts(texts), of_texts({text}));
  std::vector<std::string> thoughts;
  for (const std::string& one : texts) thoughts.push_back(R"("reasoning_content":")" + one + "\"");
  const Fingerprint thought = of_deltas(thoughts);
  EXPECT_EQ(thought.reasoning, of_texts({text}).text);
  EXPECT_EQ(thought.text.bytes, 0U);
}

TEST(StreamMeterFingerprint, GathersACallFromItsDeltas) {
  const auto wanted = of_call("look", R"({"q":"a\"b","n":1})");
  const std::vector<std::string> arguments{R"("{\"n\": 1,")", R"("\"q\":\"a\\\"")", R"("b\"}")"};
  const auto tool_calls = [](const std::string& call) { return R"("tool_calls":[)" + call + "]"; };
  const std::string begin = R"({"index":0,"id":"c1","type":"function","function":{"name":"look","arguments":""}})";
  std::vector<std::string> deltas{tool_calls(begin)};
  for (const std::string& piece : arguments)
    deltas.push_back(tool_calls(R"({"index":0,"function":{"arguments":)" + piece + "}}"));
  EXPECT_EQ(of_deltas(deltas), wanted) << "as OpenAI and vLLM write it";

  deltas.clear();
  for (const std::string& piece : arguments)
    deltas.push_back(tool_calls(R"({"index":0,"id":"c1","function":{"name":"look","arguments":)" + piece + "}}"));
  EXPECT_EQ(of_deltas(deltas), wanted) << "the name on every delta";

  deltas.clear();
  for (const std::string& piece : arguments)
    deltas.push_back(R"("tool_calls":{"function":{"arguments":)" + piece + R"(,"name":"look"},"id":"","index":0})");
  EXPECT_EQ(of_deltas(deltas), wanted) << "as TGI once wrote it";

  deltas = {R"("function_call":{"name":"look","arguments":""})"};
  for (const std::string& piece : arguments) deltas.push_back(R"("function_call":{"arguments":)" + piece + "}");
  EXPECT_EQ(of_deltas(deltas), wanted) << "OpenAI's older form";

  EXPECT_EQ(
      of_deltas(
          {R"("tool_calls":[{"index":0,"id":"x","function":{"name":"look","arguments":"{\"q\":\"a\\\"b\",\"n\":1}"}}])"}),
      wanted);
  EXPECT_EQ(fingerprint(chat, BodyForm::json,
                        message(R"("content":null,"tool_calls":[{"id":"x","type":"function","function":{"arguments":
                        "{\"n\":1,\"q\":\"a\\\"b\"}","name":"look"}}])")),
            wanted);
  EXPECT_EQ(fingerprint(chat, BodyForm::json,
                        message(R"("function_call":{"name":"look","arguments":"{\"n\":1,\"q\":\"a\\\"b\"}"})")),
            wanted);
  EXPECT_EQ(fingerprint(chat, BodyForm::json,
                        message(R"("tool_calls":[{"function":{"name":"look","arguments":{"n" :1,"q":"a\"b"}}}])")),
            wanted)
      << "TGI's whole answers have an object there";
}

TEST(StreamMeterFingerprint, TellsSeveralCallsApart) {
  record::FingerprintMaker maker(key);
  for (const auto& [name, arguments] :
       {std::pair("f", "{\"a\":1}"), std::pair("g", "{}"), std::pair("f", "{\"a\":2}")}) {
    maker.call_name(name);
    maker.call_arguments(arguments);
    maker.end_call();
  }
  const Fingerprint wanted = maker.finish();
  ASSERT_EQ(wanted.calls.size(), 3U);
  const std::string f1 = R"("function":{"name":"f","arguments":"{\"a\":1}"}})",
                    g = R"("function":{"name":"g","arguments":""}})",
                    f2 = R"("function":{"name":"f","arguments":"{\"a\":2}"}})";
  const std::string by_index = R"({"index":0,)" + f1 + R"(,{"index":1,)" + g + R"(,{"index":2,)" + f2;
  EXPECT_EQ(of_deltas({R"("tool_calls":[)" + by_index + "]"}), wanted);
  const std::string by_id =
      R"({"index":0,"id":"x",)" + f1 + R"(,{"index":0,"id":"y",)" + g + R"(,{"index":0,"id":"z",)" + f2;
  EXPECT_EQ(of_deltas({R"("tool_calls":[)" + by_id + "]"}), wanted) << "some gateways number nothing";
  EXPECT_EQ(fingerprint(chat, BodyForm::json, message(R"("tool_calls":[)" + by_id + "]")), wanted);
  const std::string line = R"({"message":{"content":"","tool_calls":[)";
  EXPECT_EQ(
      fingerprint(
          Api::ollama_chat, BodyForm::lines,
          line +
              R"({"function":{"name":"f","arguments":{"a":1}}},{"function":{"name":"g","arguments":{}}}]},"done":false})" +
              "\n" + line + R"({"function":{"name":"f","arguments":{"a":2}}}]},"done":true})" + "\n"),
      wanted);
  const std::string added =
      R"(data: {"type":"response.output_item.added","item":{"type":"function_call","arguments":"","name":)";
  const std::string more = R"(data: {"type":"response.function_call_arguments.delta","delta":)";
  EXPECT_EQ(fingerprint(responses, BodyForm::sse,
                        added + "\"f\"}}\n\n" + more + R"("{\"a\"")" + "}\n\n" + more + R"(":1}")" + "}\n\n" + added +
                            "\"g\"}}\n\n" + added + "\"f\"}}\n\n" + more + R"("{\"a\":2}")" + "}\n\n" +
                            "data: {\"type\":\"response.completed\"}\n\n"),
            wanted);
  const std::string block =
      R"(data: {"type":"content_block_start","content_block":{"type":"tool_use","input":{},"name":)";
  const std::string json = R"(data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":)";
  EXPECT_EQ(fingerprint(anthropic, BodyForm::sse,
                        block + "\"f\"}}\n\n" + json + R"("{\"a\":1}")" + "}}\n\n" + block + "\"g\"}}\n\n" + block +
                            "\"f\"}}\n\n" + json + R"("{\"a\"")" + "}}\n\n" + json + R"(":2}")" +
                            "}}\n\ndata: {\"type\":\"message_stop\"}\n\n"),
            wanted);
}

TEST(StreamMeterFingerprint, KnowsCallsThatAreNoJson) {
  const std::string call = R"("tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\": tru"}}])";
  const Fingerprint broken = of_deltas({call});
  ASSERT_EQ(broken.calls.size(), 1U);
  EXPECT_FALSE(broken.calls[0].valid);
  EXPECT_EQ(fingerprint(chat, BodyForm::json, message(call)), broken);
  EXPECT_EQ(record::likeness(broken, of_call("f", "{\"a\": tru")).same_tools, true);
}

TEST(StreamMeterFingerprint, HasTheWholeTextOnceThatGrows) {
  const auto event = [](const std::string& text, int tokens) {
    return R"(data: {"text":")" + text + R"(","meta_info":{"finish_reason":null,"completion_tokens":)" +
           std::to_string(tokens) + "}}\n\n";
  };
  record::FingerprintMaker maker(key);
  maker.text("日本🙂\nab");
  const Fingerprint wanted = maker.finish();
  EXPECT_EQ(
      fingerprint(Api::sglang_generate, BodyForm::sse,
                  event("日", 1) + event(R"(\u65e5本)", 2) + event(R"(日本\ud83d\ude42)", 3) +
                      event(R"(日本🙂\n)", 4) + event(R"(日本🙂\n)", 4) + event(R"(日本🙂\nab)", 6) + done),
      wanted);
  // A stop word that is cut off takes back what was told.
  const Fingerprint cut = fingerprint(Api::sglang_generate, BodyForm::sse, event("abc", 1) + event("ab", 2) + done);
  EXPECT_FALSE(cut.text_known);
}

TEST(StreamMeterFingerprint, IsNotMadeOfWhatIsNotWhole) {
  const auto of = [](const std::string& body, StreamMeter::Options options, bool whole = true) {
    return *replayed(body, options, whole)->answer().fingerprint;
  };
  const StreamMeter::Options stream = keyed(chat, BodyForm::sse), json = keyed(chat, BodyForm::json);
  EXPECT_NE(of(says("a") + stop + done, stream), Fingerprint());
  EXPECT_EQ(of(says("a") + stop + done, options_for(chat)), Fingerprint()) << "nobody asked for it";
  EXPECT_EQ(of(says("a"), stream, false), Fingerprint()) << "broken off";
  EXPECT_EQ(of(says("a") + "data: {\"choices\":[}\n\n" + stop + done, stream), Fingerprint()) << "an event is broken";
  const std::string longer(StreamMeter::carry_limit, 'x');
  EXPECT_EQ(of(says("a") + says(longer) + stop + done, stream), Fingerprint()) << "an event is too long";
  EXPECT_EQ(of(R"({"choices":[{"message":{"content":"a"}}])", json), Fingerprint());
  EXPECT_EQ(of(content("a"), json, false), Fingerprint());
  StreamMeter::Options two = stream;
  two.choices = 2;
  EXPECT_EQ(of(says("a") + stop + done, two), Fingerprint()) << "several choices";
  EXPECT_EQ(of("abc", keyed(chat, BodyForm::opaque)), Fingerprint());
}

TEST(StreamMeterFingerprint, IsTheSameWhereUsageIsTakenOut) {
  StreamMeter::Options options = keyed(chat, BodyForm::sse);
  options.strip(wire::Ask::usage_on_every_chunk);
  const std::string body = sample("vllm_chat_continuous_usage.sse");
  EXPECT_EQ(*replayed(body, options)->answer().fingerprint, fingerprint(chat, BodyForm::sse, body));
}

TEST(StreamMeterFingerprint, OfALastEventWithoutABlankLineCounts) {
  record::FingerprintMaker maker(key);
  maker.text("ab");
  EXPECT_EQ(fingerprint(Api::kobold_generate, BodyForm::sse, "data: {\"token\":\"a\"}\n\ndata: {\"token\":\"b\"}"),
            maker.finish());
}

TEST(StreamMeterFingerprint, LeavesOutWhatIsNoOutput) {
  // TGI's special tokens are in no whole answer, nor are events of other types that have a delta.
  const Fingerprint nothing = of_deltas({});
  EXPECT_EQ(fingerprint(Api::tgi_generate, BodyForm::sse,
                        tgi_event(R"({"token":{"text":"<eos>","special":true},"generated_text":""})")),
            nothing);
  EXPECT_EQ(
      fingerprint(anthropic, BodyForm::sse,
                  "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
                  "data: {\"type\":\"ping\",\"delta\":{\"text\":\"x\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"),
      nothing);
  EXPECT_EQ(
      fingerprint(responses, BodyForm::sse,
                  "data: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"message\",\"content\":[]}}\n\n"
                  "data: {\"type\":\"response.audio.delta\",\"delta\":\"QUJD\"}\n\n"
                  "data: {\"type\":\"response.output_text.done\",\"text\":\"x\"}\n\n"
                  "data: {\"type\":\"response.completed\"}\n\n"),
      nothing);
}

}  // namespace
}  // namespace weir::metrics::measure
