#include "lab/sim/request.hpp"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <cmath>
#include <functional>
#include <utility>

#include "lab/engine/prompt_blocks.hpp"
#include "lab/engine/words.hpp"
#include "lab/json_fields.hpp"

namespace weir::lab::sim {
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
