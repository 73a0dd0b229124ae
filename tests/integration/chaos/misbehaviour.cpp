#include "tests/integration/chaos/misbehaviour.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/integration/chaos/dice.hpp"

namespace weir::chaos {
namespace {

using namespace integration;

std::string id_of(const Exchange& exchange) { return exchange.request().head.field("x-request-id").value_or("none"); }

std::string whole_answer(const Exchange& exchange, const StreamScript& script) {
  return sse_head() + chunk(script.body(asks_for_usage(exchange.request()))) + std::string(last_chunk);
}

bool wants_stream(const Exchange& exchange) {
  return exchange.request().body.find("\"stream\":true") != std::string::npos;
}

/// Sends the head and the first events, some with pauses between them.
void begin(Exchange& exchange, const StreamScript& script, Dice& dice) {
  exchange.send(sse_head());
  const bool slow = dice.chance(0.3);
  for (std::size_t i = 0, n = dice.below(script.events.size()); i < n; ++i) {
    exchange.send(chunk(script.events[i]));
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(dice.below(8)));
  }
}

void play_slowly(Exchange& exchange, const StreamScript& script, Dice& dice) {
  exchange.send(sse_head());
  for (const auto& event : script.events) {
    std::this_thread::sleep_for(std::chrono::milliseconds(dice.below(6)));
    exchange.send(chunk(event));
  }
  if (asks_for_usage(exchange.request())) exchange.send(chunk(script.usage));
  exchange.send(chunk(script.marker) + std::string(last_chunk));
}

void send_error(Exchange& exchange, Dice& dice) {
  static constexpr std::array<std::string_view, 8> statuses{
      "400 Bad Request", "401 Unauthorized",      "404 Not Found",           "408 Request Timeout",
      "422 What",        "429 Too Many Requests", "500 Internal Server Err", "503 Service Unavailable"};
  const std::string body(dice.chance(0.2) ? 100'000 : 20, 'e');
  exchange.send(
      answer(statuses[dice.below(statuses.size())], body, "text/plain", dice.chance(0.3) ? "retry-after: 1\r\n" : ""));
}

void send_bad_head(Exchange& exchange, Dice& dice) {
  static constexpr std::array<std::string_view, 6> heads{
      "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
      "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
      "HTTP/1.1 200 OK\r\na: b\r\n c\r\ncontent-length: 0\r\n\r\n",
      "HTTP/2 200 OK\r\ncontent-length: 0\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n",
      "not HTTP at all\r\n\r\n"};
  exchange.send(heads[dice.below(heads.size())]);
}

/// Few interim answers are in order; too many are not.
void storm(Exchange& exchange, Dice& dice) {
  for (std::size_t i = 0, n = dice.between(1, 300); i < n; ++i)
    exchange.send("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
}

/// Fails before the client can have seen anything, or in the middle, or after the end.
void fail(Exchange& exchange, const StreamScript& script, Dice& dice) {
  switch (dice.below(16)) {
    case 0:
      return exchange.reset();
    case 1:
      return exchange.close();
    case 2:
      begin(exchange, script, dice);
      return exchange.reset();
    case 3:
      begin(exchange, script, dice);
      exchange.send("40\r\ndata: {");
      return exchange.close();
    case 4:
      begin(exchange, script, dice);
      exchange.finish_sending();
      return void(exchange.wait_for_close());
    case 5:
      begin(exchange, script, dice);
      return void(exchange.wait_for_close());
    case 6:
      return void(exchange.wait_for_close());
    case 7:
      return exchange.send_bytewise(whole_answer(exchange, script));
    case 8:
      return exchange.send(whole_answer(exchange, script) + "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad");
    case 9:
      storm(exchange, dice);
      return play(exchange, script);
    case 10:
      exchange.send(sse_head() + chunk(std::string(vllm_error) + "data: [DONE]\n\n") + std::string(last_chunk));
      return;
    case 11:
      begin(exchange, script, dice);
      exchange.send(chunk(std::string(vllm_error) + "data: [DONE]\n\n") + std::string(last_chunk));
      return;
    case 12:
      return send_error(exchange, dice);
    case 13:  // It ends in good order, but not complete.
      begin(exchange, script, dice);
      return exchange.send(last_chunk);
    case 14:
      send_bad_head(exchange, dice);
      return void(exchange.wait_for_close());
    default:  // The close is the framing.
      exchange.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" +
                    script.body(asks_for_usage(exchange.request())));
      return exchange.close();
  }
}

/// Machines report what they found in their caches well, or leave out a count of 0, or report nothing. Some reports
/// make no sense.
std::optional<std::size_t> cached_of(std::size_t prompt, const std::string& machine, Dice& dice) {
  if (dice.chance(0.02)) return prompt + dice.between(1, 1'000'000);
  const std::size_t found = dice.chance(0.3) ? 0 : dice.below(prompt) / 16 * 16;
  switch (machine.back() % 3) {
    case 0:
      return found;
    case 1:
      return found > 0 ? std::optional(found) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

StreamScript script_for(std::uint64_t seed, const std::string& id, const std::string& machine) {
  Dice dice(seed, "script " + id + machine);
  const auto tokens = id.ends_with(long_answer) ? 30'000
                      : dice.chance(0.05)       ? dice.between(200, 2000)
                                                : dice.between(2, 40);
  const auto prompt = dice.between(20, 4000);
  auto script = vllm_chat(tokens, prompt, id + "-" + machine + "-");
  report_cached(script, cached_of(prompt, machine, dice));
  return script;
}

void Misbehaving::at_head(Exchange& exchange) {
  if (!misbehaves_) return;
  Dice dice(seed_, "head " + id_of(exchange) + machine_);
  if (!dice.chance(0.03)) return;
  switch (dice.below(4)) {
    case 0:
      return exchange.reset();
    case 1:
      exchange.send(integration::answer("413 Payload Too Large", "{}"));
      exchange.wait_for_close();
      return exchange.close();
    case 2:
      return storm(exchange, dice);
    default:
      exchange.wait_for_close();
      return exchange.close();
  }
}

void Misbehaving::answer(Exchange& exchange) {
  if (exchange.request().target == "/flip")
    return exchange.send(integration::answer(healthy_ ? "200 OK" : "503 Service Unavailable", "{}"));
  for (const auto* field : {"authorization", "x-api-key"})
    EXPECT_FALSE(exchange.request().head.has(field)) << "a client's key has reached a replica";
  const auto id = id_of(exchange);
  const auto script = script_for(seed_, id, machine_);
  Dice dice(seed_, "answer " + id + machine_);
  if (id.ends_with(long_answer)) return exchange.send(whole_answer(exchange, script));  // Its client is what is wrong.
  if (misbehaves_ && dice.chance(0.3)) return fail(exchange, script, dice);
  if (!wants_stream(exchange)) return exchange.send(integration::answer("200 OK", vllm_whole_chat(5)));
  if (misbehaves_ && dice.chance(0.5)) return play_slowly(exchange, script, dice);
  play(exchange, script);
}

}  // namespace weir::chaos
