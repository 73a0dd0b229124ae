#include "lab/sim/answer.hpp"

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "lab/engine/memory.hpp"
#include "lab/engine/words.hpp"
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

namespace {

/// Template tokens are numbers that no text has.
enum TemplateToken : std::uint64_t { begin_of_text, message_begins, line_break, message_ends };

std::uint64_t token_of(std::string_view piece) { return std::hash<std::string_view>{}(piece); }

/// Gathers a prompt as its parts are read.
class Prompt {
 public:
  Prompt(bool with_blocks, std::string_view salt) : with_blocks_(with_blocks), blocks_(salt) {}

  void add_text(std::string_view text) {
    chars_ += text.size();
    if (!with_blocks_) {
      tokens_ += engine::count_tokens(text);
      return;
    }
    for (const std::string_view token : engine::pieces_of(text)) add_token(token_of(token));
  }
  void add_token(std::uint64_t token) {
    ++tokens_;
    if (with_blocks_) blocks_.add(token);
  }
  void begin_message(std::string_view role) {
    for (const std::uint64_t token : {std::uint64_t{message_begins}, token_of(role), std::uint64_t{line_break}})
      add_token(token);
  }
  void move_into(Request& request) {
    request.prompt_tokens = tokens_;
    request.prompt_chars = chars_;
    request.blocks = std::move(blocks_);
  }

 private:
  bool with_blocks_;
  std::uint64_t tokens_ = 0, chars_ = 0;
  engine::PromptBlocks blocks_;
};

/// Reads a positive count. An absent field or null gives nothing; anything else is refused.
std::optional<Refusal> read_count(const JsonObject& object, std::string_view key, std::optional<std::uint64_t>& out) {
  const auto value = value_at(object, key);
  if (!value || value->is_null()) return std::nullopt;
  const auto count = field<std::int64_t>(object, key);
  if (!count || *count < 1) {
    return Refusal{400, std::string(key) + " must be an integer of at least 1, got " + simdjson::minify(*value)};
  }
  out = static_cast<std::uint64_t>(*count);
  return std::nullopt;
}

std::optional<Refusal> read_messages(const JsonObject& body, Prompt& prompt) {
  const auto messages = field<JsonArray>(body, "messages");
  if (!messages || messages->size() == 0) return Refusal{400, "messages must be a list with at least one message"};
  for (std::uint64_t i = 3; i < tokens_per_chat; ++i) prompt.add_token(begin_of_text);
  if (const auto tools = field<JsonArray>(body, "tools")) prompt.add_text(simdjson::minify(*tools));
  for (const JsonValue one : *messages) {
    JsonObject message;
    if (one.get(message) != simdjson::SUCCESS) return Refusal{400, "every message must be an object"};
    prompt.begin_message(text_at(message, "role"));
    const auto content = value_at(message, "content");
    if (!content || content->is_null()) {
      // A message may consist of calls of tools alone.
    } else if (const auto text = field<std::string_view>(message, "content")) {
      prompt.add_text(*text);
    } else if (const auto parts = field<JsonArray>(message, "content")) {
      for (const JsonValue part : *parts) {
        if (JsonObject object; part.get(object) == simdjson::SUCCESS) prompt.add_text(text_at(object, "text"));
      }
    } else {
      return Refusal{400, "content must be a string or a list of parts"};
    }
    prompt.add_token(message_ends);
  }
  prompt.begin_message("assistant");
  return std::nullopt;
}

std::optional<Refusal> read_prompt(const JsonObject& body, Prompt& read) {
  auto prompt = value_at(body, "prompt");
  JsonArray list;
  const bool is_list = prompt && prompt->get(list) == simdjson::SUCCESS;
  if (is_list && list.size() == 1 && !list.at(0).value_unsafe().is_number()) {
    prompt = list.at(0).value_unsafe();  // A list of one prompt.
  }
  std::string_view text;
  if (prompt && prompt->get(text) == simdjson::SUCCESS) {
    read.add_token(begin_of_text);
    read.add_text(text);
    return std::nullopt;
  }
  if (prompt && prompt->get(list) == simdjson::SUCCESS && list.size() > 0 &&
      std::ranges::all_of(list.begin(), list.end(), [](JsonValue token) { return token.is_int64(); })) {
    for (const JsonValue token : list) read.add_token(static_cast<std::uint64_t>(std::int64_t{token}));
    return std::nullopt;
  }
  return Refusal{400, "prompt must be a string, a list of token ids, or a list of one of these"};
}

std::optional<Refusal> read_openai(const JsonObject& body, Request& request, Prompt& prompt) {
  if (value_at(body, "model")) {
    const auto model = field<std::string_view>(body, "model");
    if (!model) return Refusal{400, "model must be a string"};
    request.model = *model;
  }
  std::optional<std::uint64_t> n;
  if (auto refusal = read_count(body, "n", n)) return refusal;
  if (n.value_or(1) != 1)
    return Refusal{400, "n must be 1: a simulated replica gives one choice, got " + std::to_string(*n)};
  request.stream = flag_at(body, "stream");
  request.ignore_eos = flag_at(body, "ignore_eos");
  if (const auto options = field<JsonObject>(body, "stream_options")) {
    if (!request.stream) return Refusal{400, "stream_options can only be defined when stream is true"};
    request.include_usage = flag_at(*options, "include_usage");
    request.continuous_usage = request.include_usage && flag_at(*options, "continuous_usage_stats");
  }
  if (auto refusal = read_count(body, "max_tokens", request.max_tokens)) return refusal;
  if (request.route == Route::completions) {
    if (!request.max_tokens) request.max_tokens = 16;  // The default of OpenAI's completions.
    return read_prompt(body, prompt);
  }
  if (auto refusal = read_count(body, "max_completion_tokens", request.max_tokens)) return refusal;
  return read_messages(body, prompt);
}

std::optional<Refusal> read_tgi(const JsonObject& body, Request& request, Prompt& prompt) {
  request.stream = request.route == Route::tgi_generate_stream;
  const auto inputs = field<std::string_view>(body, "inputs");
  if (!inputs) return Refusal{422, "inputs must be a string"};
  prompt.add_token(begin_of_text);
  prompt.add_text(*inputs);
  const auto parameters = field<JsonObject>(body, "parameters");
  if (!parameters) return std::nullopt;
  request.details = flag_at(*parameters, "details");
  auto refusal = read_count(*parameters, "max_new_tokens", request.max_tokens);
  if (refusal) refusal->status = 422;
  return refusal;
}

/// Returns the members that keep the caches of requests apart.
std::string salt_of(Route route, const JsonObject& body) {
  if (is_tgi(route)) {
    const auto parameters = field<JsonObject>(body, "parameters");
    return parameters ? std::string(text_at(*parameters, "adapter_id")) : "";
  }
  std::string salt;
  for (const std::string_view key : {"cache_salt", "extra_key", "lora_path"}) {
    if (const std::string_view value = text_at(body, key); !value.empty())
      salt.append(key).append("=").append(value) += '\n';
  }
  return salt;
}

}  // namespace

std::optional<Route> route_of(std::string_view path) {
  path = path.substr(0, path.find('?'));
  if (path == "/v1/chat/completions") return Route::chat;
  if (path == "/v1/completions") return Route::completions;
  if (path == "/generate") return Route::tgi_generate;
  if (path == "/generate_stream") return Route::tgi_generate_stream;
  return std::nullopt;
}

bool is_json(std::string_view content_type) {
  return boost::beast::iequals(content_type.substr(0, content_type.find(';')), "application/json");
}

std::variant<Request, Refusal> read_request_body(Route route, std::string_view body, bool with_blocks) {
  const unsigned status = is_tgi(route) ? 422 : 400;
  const auto document = json_in(body);
  if (document.error()) return Refusal{status, "the body is not valid JSON: syntax error"};
  JsonObject object;
  if (document.get(object) != simdjson::SUCCESS) return Refusal{status, "the body must be a JSON object"};
  Request request;
  request.route = route;
  Prompt prompt(with_blocks, salt_of(route, object));
  auto refusal = is_tgi(route) ? read_tgi(object, request, prompt) : read_openai(object, request, prompt);
  prompt.move_into(request);
  if (refusal) return *std::move(refusal);
  return request;
}

void add_answer(engine::PromptBlocks& blocks, const AnswerPlan& plan, std::string_view text,
                std::optional<std::uint64_t> thoughts) {
  if (thoughts) blocks.add(*thoughts);
  for (const std::string_view piece : engine::pieces_of(text)) blocks.add(token_of(piece));
  if (plan.by_stop) blocks.add(message_ends);
}

AnswerPlan plan_answer(const Request& request, engine::Random& random) {
  AnswerPlan plan;
  if (request.max_tokens) {
    plan.tokens = *request.max_tokens;
    plan.by_stop = random.below(2) == 0;
  } else {
    const double drawn = 130.0 * std::exp(0.8 * random.normal());
    plan.tokens = static_cast<std::uint64_t>(std::clamp(drawn, 2.0, 1024.0));
    plan.by_stop = true;
  }
  if (request.ignore_eos || plan.tokens < 2) plan.by_stop = false;
  return plan;
}

}  // namespace weir::lab::sim
