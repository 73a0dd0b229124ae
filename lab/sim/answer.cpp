#include "lab/sim/answer.hpp"

#include <array>
#include <charconv>

#include "lab/engine/words.hpp"
#include "lab/json_fields.hpp"
#include "lab/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::sim {
namespace {

std::string json_string(std::string_view text) {
  std::string out;
  metrics::wire::append_json_string(out, text);
  return out;
}

std::string hex_id(std::uint64_t seed) {
  engine::Random random(seed);
  const unsigned long long high = random.next(), low = random.next();
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace

void append_chunk(std::string& out, std::string_view payload) {
  std::array<char, 16> size{};
  const auto end = std::to_chars(size.data(), size.data() + size.size(), payload.size(), 16).ptr;
  out.append(size.data(), end).append("\r\n").append(payload).append("\r\n");
}

std::string refusal_body(Route route, const Refusal& refusal) {
  if (is_tgi(route)) {
    const auto message = json_string("Input validation error: " + refusal.message);
    return R"({"error":)" + message + R"(,"error_type":"validation"})";
  }
  const std::string_view type = refusal.status == 404 ? "NotFoundError" : "BadRequestError";
  return R"({"error":{"message":)" + json_string(refusal.message) + R"(,"type":")" + std::string(type) +
         R"(","param":null,"code":)" + std::to_string(refusal.status) + "}}";
}

Answer::Answer(const Request& request, const AnswerPlan& plan, std::string_view model, std::uint64_t seed,
               std::int64_t created)
    : request_(request), plan_(plan), seed_(seed) {
  if (is_tgi(request.route)) return;
  const bool chat = request.route == Route::chat;
  const std::string id = (chat ? "chatcmpl-" : "cmpl-") + hex_id(seed);
  const std::string rest = R"(,"created":)" + std::to_string(created) + R"(,"model":)" + json_string(model) + ",";
  envelope_ = R"(data: {"id":")" + id + R"(","object":)" +
              (chat ? R"("chat.completion.chunk")" : R"("text_completion")") + rest;
  whole_prefix_ =
      R"({"id":")" + id + R"(","object":)" + (chat ? R"("chat.completion")" : R"("text_completion")") + rest;
}

std::string Answer::usage(std::uint64_t completion_tokens) const {
  return R"("usage":{"prompt_tokens":)" + std::to_string(request_.prompt_tokens) + R"(,"total_tokens":)" +
         std::to_string(request_.prompt_tokens + completion_tokens) + R"(,"completion_tokens":)" +
         std::to_string(completion_tokens) + "}";
}

/// Returns what is told at the end. Counts on the way have no details.
std::string Answer::whole_usage() const {
  std::string whole = usage(plan_.tokens);
  if (!cached_tokens_) return whole;
  whole.back() = ',';
  return whole + R"("prompt_tokens_details":{"cached_tokens":)" + std::to_string(*cached_tokens_) + "}}";
}

void Answer::append_head(std::string& out, bool keep_alive) const {
  out += "HTTP/1.1 200 OK\r\nserver: weir-lab-sim\r\n";
  if (is_tgi(request_.route)) {
    out += "content-type: text/event-stream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n";
    out += "x-compute-type: simulated\r\nx-compute-characters: " + std::to_string(request_.prompt_chars) + "\r\n";
  } else {
    out += "content-type: text/event-stream; charset=utf-8\r\n";
  }
  if (!keep_alive) out += "connection: close\r\n";
  out += "transfer-encoding: chunked\r\n\r\n";
}

void Answer::append_tokens(std::string& out, std::uint64_t first, std::uint64_t last) const {
  if (is_tgi(request_.route)) {
    for (std::uint64_t index = first; index <= last; ++index) append_tgi(out, index);
  } else {
    append_openai(out, first, last);
  }
  if (last == plan_.tokens) out += "0\r\n\r\n";
}

void Answer::append_openai(std::string& out, std::uint64_t first, std::uint64_t last) const {
  const bool chat = request_.route == Route::chat;
  const bool ends = last == plan_.tokens;
  std::string event;
  event.reserve(envelope_.size() + 256);
  if (chat && first == 1) {
    event =
        envelope_ +
        R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],)";
    if (request_.continuous_usage) event += usage(0) + ",";
    event += "\"prompt_token_ids\":null,\"prompt_text\":null}\n\n";
    append_chunk(out, event);
  }
  event = envelope_;
  event += chat ? R"("choices":[{"index":0,"delta":{"content":")" : R"("choices":[{"index":0,"text":")";
  event += text_json(first, last);
  event += chat ? R"("},"logprobs":null,"finish_reason":)" : R"(","logprobs":null,"finish_reason":)";
  event += !ends ? "null" : plan_.by_stop ? R"("stop")" : R"("length")";
  if (ends || !chat) event += R"(,"stop_reason":null)";
  if (!chat) event += R"(,"prompt_token_ids":null)";
  event += R"(,"token_ids":null}])";
  if (request_.continuous_usage) event += "," + usage(last);
  event += "}\n\n";
  append_chunk(out, event);
  if (!ends) return;
  if (request_.include_usage) {
    append_chunk(out, envelope_ + R"("choices":[],)" + whole_usage() +
                          (chat ? R"(,"system_fingerprint":"weir-lab-sim")" : "") + "}\n\n");
  }
  append_chunk(out, "data: [DONE]\n\n");
}

void Answer::append_tgi(std::string& out, std::uint64_t index) const {
  std::string event = R"(data:{"index":)" + std::to_string(index) + R"(,"token":{"id":)";
  if (has_text(index)) {
    event += std::to_string(1000 + seed_ % 1000 + index) + R"(,"text":")";
    event += engine::answer_token(seed_, index);
    event += R"(","logprob":-0.5,"special":false})";
  } else {
    event += R"(128009,"text":"<|eot_id|>","logprob":-0.01,"special":true})";
  }
  if (index < plan_.tokens) {
    event += R"(,"generated_text":null,"details":null})";
  } else {
    event += R"(,"generated_text":")" + text_json() + R"(","details":)";
    if (request_.details) {
      event += R"({"finish_reason":")";
      event += plan_.by_stop ? "eos_token" : "length";
      event += R"(","generated_tokens":)" + std::to_string(plan_.tokens) + R"(,"seed":null,"input_length":)" +
               std::to_string(request_.prompt_tokens) + "}";
    } else {
      event += "null";
    }
    event += '}';
  }
  event += "\n\n";
  append_chunk(out, event);
}

std::string Answer::text_json(std::uint64_t first, std::uint64_t last) const {
  std::string text;
  for (std::uint64_t i = first; i <= last; ++i) {
    if (has_text(i)) text += engine::answer_token(seed_, i);
  }
  return text;
}

std::string Answer::text() const {
  std::string_view text;
  const std::string in_quotes = '"' + text_json() + '"';
  return json_in(in_quotes).get(text) == simdjson::SUCCESS ? std::string(text) : "";
}

std::string Answer::whole() const {
  if (!is_tgi(request_.route)) {
    const bool chat = request_.route == Route::chat;
    return whole_prefix_ + R"("choices":[{"index":0,)" +
           (chat ? R"("message":{"role":"assistant","content":")" : R"("text":")") + text_json() +
           (chat ? R"(","tool_calls":[]})" : "\"") + R"(,"logprobs":null,"finish_reason":")" +
           (plan_.by_stop ? "stop" : "length") + R"(","stop_reason":null}],)" + whole_usage() + "}";
  }
  std::string body = R"({"generated_text":")" + text_json() + "\"";
  if (request_.details) {
    body += R"(,"details":{"finish_reason":")" + std::string(plan_.by_stop ? "eos_token" : "length") +
            R"(","generated_tokens":)" + std::to_string(plan_.tokens) + R"(,"seed":null,"prefill":[],"tokens":[]})";
  }
  return body + "}";
}

}  // namespace weir::lab::sim
