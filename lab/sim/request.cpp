#include "lab/sim/request.hpp"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/json.hpp>
#include <cmath>
#include <functional>
#include <utility>

#include "lab/engine/prefix_cache.hpp"
#include "lab/engine/words.hpp"
#include "lab/json_fields.hpp"
#include "lab/tasks/task.hpp"

namespace weir::lab::sim {
namespace {

namespace json = boost::json;

/// Gathers a prompt as its parts are read.
class Prompt {
 public:
  explicit Prompt(bool with_blocks) : with_blocks_(with_blocks) {}

  void add_text(std::string_view text) {
    chars_ += text.size();
    if (tasks::is_task(text)) task_ = text;
    if (!with_blocks_) {
      tokens_ += engine::count_tokens(text);
      return;
    }
    for (const std::string_view token : engine::pieces_of(text)) add_token(std::hash<std::string_view>{}(token));
  }
  void add_token(std::uint64_t token) {
    ++tokens_;
    if (with_blocks_) blocks_.add(token);
  }
  /// Adds tokens of a template, which are the same in every prompt.
  void add_template(std::uint64_t tokens) {
    for (std::uint64_t i = 0; i < tokens; ++i) add_token(i);
  }
  void move_into(Request& request) {
    request.prompt_tokens = tokens_;
    request.prompt_chars = chars_;
    request.task = std::move(task_);
    request.blocks = blocks_.take();
  }

 private:
  bool with_blocks_;
  std::uint64_t tokens_ = 0, chars_ = 0;
  std::string task_;
  engine::PromptBlocks blocks_;
};

/// Reads a positive count. An absent field or null gives nothing; anything else is refused.
std::optional<Refusal> read_count(const json::object& object, std::string_view key, std::optional<std::uint64_t>& out) {
  const json::value* v = object.if_contains(key);
  if (!v || v->is_null()) return std::nullopt;
  if (!v->is_int64() || v->get_int64() < 1) {
    return Refusal{400, std::string(key) + " must be an integer of at least 1, got " + json::serialize(*v)};
  }
  out = static_cast<std::uint64_t>(v->get_int64());
  return std::nullopt;
}

std::optional<Refusal> read_messages(const json::object& body, Prompt& prompt) {
  const json::array* messages = array_at(body, "messages");
  if (!messages || messages->empty()) return Refusal{400, "messages must be a list with at least one message"};
  prompt.add_template(tokens_per_chat);
  for (const json::value& m : *messages) {
    if (!m.is_object()) return Refusal{400, "every message must be an object"};
    prompt.add_template(tokens_per_message);
    const json::value* content = m.get_object().if_contains("content");
    if (!content || content->is_null()) continue;
    if (const json::string* text = content->if_string()) {
      prompt.add_text(*text);
    } else if (const json::array* parts = content->if_array()) {
      for (const json::value& part : *parts) {
        if (const json::object* p = part.if_object()) prompt.add_text(text_at(*p, "text"));
      }
    } else {
      return Refusal{400, "content must be a string or a list of parts"};
    }
  }
  if (const json::array* tools = array_at(body, "tools")) prompt.add_text(json::serialize(*tools));
  return std::nullopt;
}

std::optional<Refusal> read_prompt(const json::object& body, Prompt& read) {
  const json::value* prompt = body.if_contains("prompt");
  if (prompt && prompt->is_array() && prompt->get_array().size() == 1 && !prompt->get_array()[0].is_number()) {
    prompt = &prompt->get_array()[0];  // A list of one prompt.
  }
  if (prompt && prompt->is_string()) {
    read.add_template(1);  // The token that begins a text.
    read.add_text(prompt->get_string());
    return std::nullopt;
  }
  if (prompt && prompt->is_array() && !prompt->get_array().empty() &&
      std::ranges::all_of(prompt->get_array(), [](const json::value& v) { return v.is_int64(); })) {
    for (const json::value& token : prompt->get_array()) read.add_token(static_cast<std::uint64_t>(token.get_int64()));
    return std::nullopt;
  }
  return Refusal{400, "prompt must be a string, a list of token ids, or a list of one of these"};
}

std::optional<Refusal> read_openai(const json::object& body, Request& request, Prompt& prompt) {
  if (const json::value* model = body.if_contains("model")) {
    if (!model->is_string()) return Refusal{400, "model must be a string"};
    request.model = model->get_string().c_str();
  }
  std::optional<std::uint64_t> n;
  if (auto refusal = read_count(body, "n", n)) return refusal;
  if (n.value_or(1) != 1)
    return Refusal{400, "n must be 1: a simulated replica gives one choice, got " + std::to_string(*n)};
  request.stream = flag_at(body, "stream");
  request.ignore_eos = flag_at(body, "ignore_eos");
  if (const json::object* options = object_at(body, "stream_options")) {
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

std::optional<Refusal> read_tgi(const json::object& body, Request& request, Prompt& prompt) {
  request.stream = request.route == Route::tgi_generate_stream;
  const json::value* inputs = body.if_contains("inputs");
  if (!inputs || !inputs->is_string()) return Refusal{422, "inputs must be a string"};
  prompt.add_template(1);
  prompt.add_text(inputs->get_string());
  const json::object* parameters = object_at(body, "parameters");
  if (!parameters) return std::nullopt;
  request.details = flag_at(*parameters, "details");
  auto refusal = read_count(*parameters, "max_new_tokens", request.max_tokens);
  if (refusal) refusal->status = 422;
  return refusal;
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
  boost::system::error_code ec;
  const json::value document = json::parse(body, ec);
  const unsigned status = is_tgi(route) ? 422 : 400;
  if (ec) return Refusal{status, "the body is not valid JSON: " + ec.message()};
  const json::object* object = document.if_object();
  if (!object) return Refusal{status, "the body must be a JSON object"};
  Request request;
  request.route = route;
  Prompt prompt(with_blocks);
  auto refusal = is_tgi(route) ? read_tgi(*object, request, prompt) : read_openai(*object, request, prompt);
  prompt.move_into(request);
  if (refusal) return *std::move(refusal);
  return request;
}

AnswerPlan plan_answer(const Request& request, engine::Random& random, double wrong) {
  AnswerPlan plan;
  if (!request.task.empty()) {
    const std::string answer = tasks::solve(request.task, wrong, random);
    for (const std::string_view piece : engine::pieces_of(answer)) plan.text.emplace_back(piece);
    const std::uint64_t whole = plan.text.size() + 1;  // The last one is EOS.
    plan.tokens =
        request.ignore_eos ? request.max_tokens.value_or(whole) : std::min(request.max_tokens.value_or(whole), whole);
    plan.by_stop = !request.ignore_eos && plan.tokens == whole;
    return plan;
  }
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
