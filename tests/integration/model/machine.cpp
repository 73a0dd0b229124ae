#include "tests/integration/model/machine.hpp"

#include <thread>
#include <tuple>
#include <utility>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::model {
namespace {

using namespace integration;
using namespace std::chrono_literals;

constexpr auto between_tokens = 40ms;
constexpr auto slow_first_token = 7s;
constexpr auto between_words = 8ms;
constexpr unsigned requests_to_crash = 3;
constexpr auto a_look = 10ms;
constexpr std::size_t prompt_tokens = 300, shared_tokens = 256;

/// A prompt's words: the request's name, and the engine's part in it.
struct Wish {
  std::string id, what;
};

Wish wish_of(const std::string& body) {
  static constexpr std::string_view before = "\"content\":\"";
  const auto begin = body.rfind(before);  // All begin with the same system prompt.
  if (begin == body.npos) return {};
  const auto text = body.substr(begin + before.size(), body.find('"', begin + before.size()) - begin - before.size());
  const auto blank = text.find(' ');
  return {text.substr(0, blank), blank == text.npos ? "" : text.substr(blank + 1)};
}

const auto not_found = answer("404 Not Found", R"({"error":{"message":"no such thing here","code":404}})");
constexpr auto awake = "vllm:engine_sleep_state{engine=\"0\",sleep_state=\"awake\"} ";

bool wants_stream(const std::string& body) { return body.find("\"stream\":true") != body.npos; }

}  // namespace

void Truth::release(const std::string& id) {
  const std::lock_guard lock(mutex_);
  released_.insert(id);
}

bool Truth::is_released(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return released_.contains(id);
}

void Truth::add_violation(std::string text) {
  const std::lock_guard lock(mutex_);
  violations_.push_back(std::move(text));
}

std::vector<std::string> Truth::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

std::string token_text(const std::string& id, std::size_t number) { return id + "-" + std::to_string(number) + "-"; }
std::string token_event(const std::string& id, std::size_t number) {
  return vllm_chat(2, 31, token_text(id, number)).events[1];
}

Machine::Machine(Truth& truth, std::string label, bool has_key, std::uint16_t port, unsigned host)
    : truth_(truth), label_(std::move(label)), has_key_(has_key), port_(port), host_(host) {
  start();
}

Machine::~Machine() {
  ends_ = true;
  peer_.reset();
}

void Machine::start() {
  ends_ = warm_ = false;
  peer_ = std::make_unique<ScriptedReplica>([this](Exchange& exchange) { answer(exchange); },
                                            ScriptedReplica::ModelsQuestion::answered_unseen, port_, host_);
  peer_->has_page("/metrics", integration::answer("200 OK", awake + std::string("1\n"), "text/plain"));
}

std::string Machine::url() const { return "http://127.0.0." + std::to_string(host_) + ":" + std::to_string(port_); }

void Machine::kill() {
  always_well_ = false;
  ends_ = true;
  peer_.reset();
}

void Machine::hang() {
  always_well_ = false;
  hangs_ = true;
}

void Machine::fail() {
  always_well_ = false;
  fails_ = true;
}

void Machine::spoil(Flaw flaw) {
  always_well_ = false;
  until_crash_ = requests_to_crash;
  const auto value = flaw == Flaw::asleep ? "0\n" : "1\n";
  peer_->has_page("/metrics", integration::answer("200 OK", awake + std::string(value), "text/plain"));
  if (flaw == Flaw::asleep) await_reading();
  flaw_ = flaw;
}

void Machine::await_reading() const {
  for (const auto before = peer_->asked_for("/metrics"); peer_->asked_for("/metrics") < before + 2;)
    std::this_thread::sleep_for(a_look);
}

void Machine::mend() {
  hangs_ = fails_ = false;
  const bool slept = flaw_.exchange(Flaw::none) == Flaw::asleep;
  if (!peer_) start();
  if (slept) spoil(Flaw::none);
}

std::size_t Machine::came(const std::string& what) const {
  const std::lock_guard lock(mutex_);
  const auto found = came_.find(what);
  return found == came_.end() ? 0 : found->second;
}

template <class Why>
void Machine::wait_while(const Why& why) const {
  while (!truth_.over && !ends_ && why()) std::this_thread::sleep_for(a_look);
}

void Machine::look_for_secrets(const ReceivedRequest& request) {
  const auto all = request.head.bytes + request.body;
  if (all.find("secret-of-") != all.npos)
    truth_.add_violation("I3: a client's key has reached machine " + label_ + ": " + request.head.bytes);
  const auto shown = request.head.field("authorization").value_or("");
  if (shown != (has_key_ ? "Bearer " + secret() : ""))
    truth_.add_violation("I3: machine " + label_ + " was shown '" + shown + "', which is not its own key");
}

/// All prompts begin alike, so a machine finds that beginning from its second prompt on. Some machines leave out a
/// count of 0, and some report nothing.
std::optional<std::size_t> Machine::found() {
  const bool some = warm_.exchange(true);
  if (label_.back() % 3 == 2 || (label_.back() % 3 == 1 && !some)) return std::nullopt;
  return some ? shared_tokens : 0;
}

void Machine::stream(Exchange& exchange, const std::string& id, const std::string& what) {
  const bool lasts = what == "hold", talks = what == "talk";
  const auto frame = vllm_chat(2);
  exchange.send(sse_head() + chunk(frame.events.front()));
  const auto cached = found();
  std::size_t tokens = 0;
  do {
    wait_while([&] { return hangs_.load(); });
    if (ends_) return exchange.reset();
    exchange.send(chunk(token_event(id, ++tokens)));
    if (lasts || talks) std::this_thread::sleep_for(lasts ? between_tokens : between_words);
  } while (!truth_.over && (lasts ? !truth_.is_released(id) : tokens < (talks ? talk_tokens : 3)));
  exchange.send(chunk(frame.events.back()));
  auto end = vllm_chat(tokens + 1, prompt_tokens);
  report_cached(end, cached);
  if (asks_for_usage(exchange.request())) exchange.send(chunk(end.usage));
  exchange.send(chunk(frame.marker) + std::string(last_chunk));
}

void Machine::answer(Exchange& exchange) {
  wait_while([&] { return hangs_.load(); });
  if (ends_) return exchange.reset();
  const auto& request = exchange.request();
  if (request.target == "/alive")
    return exchange.send(integration::answer(flaw_ == Flaw::ill ? "503 Service Unavailable" : "200 OK", "{}"));
  look_for_secrets(request);
  if (fails_) return exchange.send(integration::answer("500 Internal Server Error", "{}"));
  const auto [id, what] = wish_of(request.body);
  {
    const std::lock_guard lock(mutex_);
    ++came_[what];
  }
  if (answer_badly(exchange) || answer_wrongly(exchange, what)) return;
  if (request.target == "/v1/responses") return respond(exchange);
  if (what == "bad") {
    std::this_thread::sleep_for(between_tokens);
    return exchange.send(integration::answer("400 Bad Request", "{\"error\":{\"message\":\"no such thing\"}}"));
  }
  if (what == "slow") {
    const auto then = Clock::now() + slow_first_token;
    wait_while([&] { return Clock::now() < then; });
  }
  if (wants_stream(request.body)) return stream(exchange, id, what);
  if (what == "talk") std::this_thread::sleep_for(talk_tokens * between_words);
  exchange.send(integration::answer("200 OK", vllm_whole_chat(what == "talk" ? talk_tokens : 5)));
}

bool Machine::answer_badly(Exchange& exchange) {
  const bool streams = wants_stream(exchange.request().body);
  switch (flaw_) {
    case Flaw::empty:
      exchange.send(streams ? sse_head() + std::string(last_chunk) : integration::answer("200 OK", ""));
      return true;
    case Flaw::page:
      exchange.send(integration::answer("200 OK", "<html><body>Welcome</body></html>", "text/html"));
      return true;
    case Flaw::asleep:
      wait_while([this] { return flaw_ == Flaw::asleep; });
      return false;
    case Flaw::crashes:
      if (until_crash_ > 0 && --until_crash_ > 0) return false;
      ends_ = true;
      exchange.reset();
      return true;
    default:
      return false;
  }
}

/// The request's word says what is wrong.
bool Machine::answer_wrongly(Exchange& exchange, const std::string& what) {
  const auto& [target, body] = std::tie(exchange.request().target, exchange.request().body);
  if (what == "limited" || what == "crowded") {
    const auto until = what == "limited" ? "retry-after: 60\r\n" : "";
    exchange.send(integration::answer("429 Too Many Requests", R"({"error":{"message":"your limit","code":429}})",
                                      "application/json", until));
  } else if (what == "invalid") {
    exchange.send(sse_head() +
                  chunk("data: {\"error\":{\"message\":\"no such grammar\",\"type\":\"validation\","
                        "\"code\":400}}\n\n") +
                  std::string(last_chunk));
  } else if (what == "numbing") {
    hang();
    wait_while([this] { return hangs_.load(); });
    exchange.reset();
  } else if (what == "deadly") {
    always_well_ = false;
    ends_ = true;
    exchange.reset();
  } else if (target == "/v1/embeddings" || (lacks_chats_ && target == chat) ||
             (!has_adapter_ && body.find("\"model\":\"b-adapter\"") != body.npos)) {
    exchange.send(not_found);
  } else {
    return false;
  }
  return true;
}

/// A response stands under an id that tells nothing of the machine.
void Machine::respond(Exchange& exchange) {
  static constexpr std::string_view before = "\"previous_response_id\":\"";
  static std::atomic<unsigned> ids{0};
  const auto& body = exchange.request().body;
  const std::lock_guard lock(mutex_);
  if (const auto at = body.find(before); at != body.npos) {
    const auto from = at + before.size();
    if (!kept_.contains(body.substr(from, body.find('"', from) - from))) return exchange.send(not_found);
  }
  const auto id = "resp_" + std::to_string(++ids);
  kept_.insert(id);
  exchange.send(integration::answer(
      "200 OK", R"({"id":")" + id + R"(","object":"response","status":"completed","output":[{"type":"message",)" +
                    R"("content":[{"type":"output_text","text":"hi"}]}]})"));
}

}  // namespace weir::model
