#include "tests/integration/peers/streams.hpp"

#include <boost/json.hpp>
#include <cstdio>

namespace weir::integration {
namespace {

std::string event(std::string_view json) { return "data: " + std::string(json) + "\n\n"; }

std::string chat_chunk(std::string_view choices, std::string_view rest = "") {
  return event(
      "{\"id\":\"chatcmpl-0a1b2c\",\"object\":\"chat.completion.chunk\",\"created\":1779866853,\"model\":\"m\","
      "\"choices\":" +
      std::string(choices) + std::string(rest) + "}");
}

std::string completions_chunk(std::string_view choices, std::string_view rest = "") {
  return event(
      "{\"id\":\"cmpl-0a1b2c\",\"object\":\"text_completion\",\"created\":1779866853,\"model\":\"m\",\"choices\":" +
      std::string(choices) + std::string(rest) + "}");
}

std::string usage_member(std::size_t prompt, std::size_t output) {
  return ",\"usage\":{\"prompt_tokens\":" + std::to_string(prompt) +
         ",\"total_tokens\":" + std::to_string(prompt + output) + ",\"completion_tokens\":" + std::to_string(output) +
         "}";
}

std::string word(std::string_view tag, std::size_t i) { return " " + std::string(tag) + std::to_string(i); }

}  // namespace

std::string StreamScript::body(bool with_usage) const {
  std::string all;
  for (const auto& one : events) all += one;
  if (with_usage) all += usage;
  return all + marker;
}

StreamScript vllm_chat(std::size_t tokens, std::size_t prompt_tokens, std::string_view tag) {
  StreamScript script;
  script.events.push_back(
      chat_chunk(R"([{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])",
                 R"(,"prompt_token_ids":null)"));
  for (std::size_t i = 1; i < tokens; ++i)
    script.events.push_back(chat_chunk("[{\"index\":0,\"delta\":{\"content\":\"" + word(tag, i) +
                                       "\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]"));
  script.events.push_back(chat_chunk(
      R"([{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}])"));
  script.usage = chat_chunk("[]", usage_member(prompt_tokens, tokens));
  script.marker = "data: [DONE]\n\n";
  script.prompt_tokens = prompt_tokens;
  script.output_tokens = tokens;
  script.token_events = tokens - 1;
  return script;
}

StreamScript vllm_completions(std::size_t tokens, std::size_t prompt_tokens) {
  StreamScript script;
  for (std::size_t i = 1; i < tokens; ++i)
    script.events.push_back(completions_chunk("[{\"index\":0,\"text\":\"" + word("c", i) +
                                              "\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}]"));
  script.events.push_back(
      completions_chunk(R"([{"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":null}])"));
  script.usage = completions_chunk("[]", usage_member(prompt_tokens, tokens));
  script.marker = "data: [DONE]\n\n";
  script.prompt_tokens = prompt_tokens;
  script.output_tokens = tokens;
  script.token_events = tokens - 1;
  return script;
}

StreamScript tgi_stream(std::size_t tokens, std::size_t prompt_tokens) {
  StreamScript script;
  std::string text;
  for (std::size_t i = 1; i <= tokens; ++i) {
    text += word("t", i);
    const bool last = i == tokens;
    const auto details = "{\"finish_reason\":\"eos_token\",\"generated_tokens\":" + std::to_string(tokens) +
                         ",\"seed\":null,\"input_length\":" + std::to_string(prompt_tokens) + "}";
    script.events.push_back(
        "data:{\"index\":" + std::to_string(i) + ",\"token\":{\"id\":" + std::to_string(1000 + i) + ",\"text\":\"" +
        word("t", i) + "\",\"logprob\":-0.5,\"special\":false},\"generated_text\":" +
        (last ? "\"" + text + "\"" : "null") + ",\"details\":" + (last ? details : "null") + "}\n\n");
  }
  script.prompt_tokens = prompt_tokens;
  script.output_tokens = tokens;
  script.token_events = tokens;
  return script;
}

std::string sse_head(std::string_view fields) {
  return "HTTP/1.1 200 OK\r\ndate: Sat, 21 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\n"
         "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n" +
         std::string(fields) + "\r\n";
}

std::string answer(std::string_view status, std::string_view body, std::string_view type, std::string_view fields) {
  return "HTTP/1.1 " + std::string(status) + "\r\ncontent-type: " + std::string(type) + "\r\n" + std::string(fields) +
         "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string post(std::string_view target, std::string_view body, std::string_view fields) {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: weir.test\r\nContent-Type: application/json\r\n" +
         std::string(fields) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string get(std::string_view target, std::string_view fields) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) + "\r\n";
}

void report_cached(StreamScript& script, std::optional<std::size_t> tokens) {
  static constexpr std::string_view begin = "\"usage\":{";
  if (!tokens) return;
  script.usage.insert(script.usage.find(begin) + begin.size(),
                      "\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(*tokens) + "},");
}

std::string chat_body(std::string_view prompt, std::string_view model) {
  return "{\"model\":\"" + std::string(model) + "\",\"messages\":[{\"role\":\"user\",\"content\":\"" +
         std::string(prompt) + "\"}],\"stream\":true,\"max_tokens\":256}";
}

std::string chat_body_with_usage(std::string_view prompt) {
  return "{\"model\":\"m\",\"stream_options\":{\"include_usage\":true},\"messages\":[{\"role\":\"user\",\"content\":"
         "\"" +
         std::string(prompt) + "\"}],\"stream\":true}";
}

std::string whole_chat_body(std::string_view prompt) {
  return "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" + std::string(prompt) +
         "\"}],\"max_tokens\":256}";
}

std::string vllm_whole_chat(std::size_t tokens, std::size_t prompt_tokens) {
  return "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1779866853,\"model\":\"m\",\"choices\":[{"
         "\"index\":0,"
         "\"message\":{\"role\":\"assistant\",\"content\":\"All of "
         "it.\"},\"logprobs\":null,\"finish_reason\":\"stop\"}]" +
         usage_member(prompt_tokens, tokens) + "}";
}

bool asks_for_usage(const ReceivedRequest& request) {
  boost::system::error_code error;
  const auto body = boost::json::parse(request.body, error);
  if (error || !body.is_object()) return false;
  const auto* options = body.get_object().if_contains("stream_options");
  if (options == nullptr || !options->is_object()) return false;
  const auto* include = options->get_object().if_contains("include_usage");
  return include != nullptr && include->is_bool() && include->get_bool();
}

void play(Exchange& exchange, const StreamScript& script) {
  Event none;
  play_with_pause(exchange, script, script.events.size(), none);
}

void play_with_pause(Exchange& exchange, const StreamScript& script, std::size_t events, Event& go_on) {
  exchange.send(sse_head());
  for (std::size_t i = 0; i < script.events.size(); ++i) {
    if (i == events) go_on.wait("the test to go on");
    exchange.send(chunk(script.events[i]));
  }
  if (asks_for_usage(exchange.request()) && !script.usage.empty()) exchange.send(chunk(script.usage));
  if (!script.marker.empty()) exchange.send(chunk(script.marker));
  exchange.send(last_chunk);
}

ScriptedReplica::Handler plays(StreamScript script) {
  return [script = std::move(script)](Exchange& exchange) { play(exchange, script); };
}

ScriptedReplica::Handler always(std::string bytes) {
  return [bytes = std::move(bytes)](Exchange& exchange) { exchange.send(bytes); };
}

}  // namespace weir::integration
