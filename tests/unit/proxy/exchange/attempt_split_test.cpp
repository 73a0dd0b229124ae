// The property that matters most: cuts between reads do not change what the client gets, how the attempt ends and what
// was measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"
#include "tests/unit/proxy/exchange/attempt_story.hpp"
#include "tests/unit/split_grid.hpp"

namespace weir::proxy::exchange {
namespace {

/// The bytes of a replica, and the end of its connection if the answer has not ended by then.
struct Script {
  std::string name;
  Circumstances setup;
  std::string bytes;
  std::optional<End> end;
  std::optional<std::string> body{};  ///< The client is to get this, if it is known beforehand.
};

std::string in_chunks(std::string_view body, unsigned seed) {
  std::mt19937 random(seed);
  std::string chunks;
  while (!body.empty()) {
    const auto piece = body.substr(0, 1 + random() % 300);
    chunks += chunk(piece);
    body.remove_prefix(piece.size());
  }
  return chunks + last_chunk;
}

/// Returns everything that must be the same, as text. (Bytes behind an answer are seen here only if they come with its
/// end.)
std::string told(AttemptStory& attempt) {
  auto& machine = *attempt.machine;
  const auto kept = machine.take_kept();
  const auto seen = attempt.seen(kept.empty() ? attempt.client : kept);
  std::ostringstream s;
  s << seen.head << "|" << seen.body << "|" << (seen.whole ? "whole" : "") << (machine.done() ? " done" : "")
    << (machine.cut() ? " cut" : "") << (machine.committed() ? " committed" : "")
    << (machine.client_reusable() ? " client reusable" : "") << " end " << static_cast<int>(machine.end())
    << " framing " << static_cast<int>(machine.client_framing()) << " outcome "
    << (machine.done() ? name_of(machine.outcome()) : "") << " retry "
    << (machine.retry_reason() ? static_cast<int>(*machine.retry_reason()) : -1) << " accepted " << attempt.accepted
    << " status " << machine.status().value_or(0) << " out " << machine.bytes_out();
  // If an answer is not kept, it does not matter how far it was read.
  if (machine.reply() == Reply::error && kept.empty()) return s.str();
  s << " in " << attempt.shard.bytes[1].value() << " tokens " << attempt.shard.output_tokens.value() << "\n"
    << metrics::measure::words(machine.answer());
  return s.str();
}

std::string play(const Script& script, const std::vector<std::size_t>& sizes) {
  AttemptStory attempt(script.setup);
  attempt.arrives_split(script.bytes, sizes);
  if (!attempt.machine->done() && script.end) attempt.breaks(*script.end);
  EXPECT_TRUE(attempt.machine->done()) << script.name;
  EXPECT_EQ(attempt.pool->figures().in_flight(), attempt.machine->end() == End::option_refused ? 1u : 0u)
      << script.name << ": the lease ends with the replica's work";
  if (script.body) {
    EXPECT_EQ(attempt.seen().body, *script.body) << script.name;
  }
  return told(attempt);
}

void same_however_split(const Script& script, bool every_cut) {
  const auto whole = play(script, {script.bytes.size()});
  std::mt19937 random(3);
  std::vector<std::vector<std::size_t>> splits{{1}, {2}, {3}, {7}, {64}, {500}};
  for (std::size_t at = 1; every_cut && at < script.bytes.size(); at += split_step)
    splits.push_back({at, script.bytes.size()});
  for (int i = 0; i < 6; ++i) {
    std::vector<std::size_t> sizes(2 * script.bytes.size());
    for (auto& size : sizes) size = 1 + random() % (i % 2 == 0 ? 20 : 900);
    splits.push_back(std::move(sizes));
  }
  for (const auto& sizes : splits)
    ASSERT_EQ(play(script, sizes), whole) << script.name << ", reads of " << sizes.front() << " and on";
}

struct Sample {
  const char* file;
  Api api;
  bool usage_event;  ///< A usage event is among them, which weir would have asked for.
};
constexpr Sample samples[]{
    {"vllm_chat", Api::openai_chat, true},
    {"vllm_chat_error_midstream", Api::openai_chat, false},
    {"vllm_chat_truncated", Api::openai_chat, false},
    {"sglang_chat", Api::openai_chat, true},
    {"llamacpp_chat", Api::openai_chat, true},
    {"vllm_completions", Api::openai_completions, true},
    {"tgi_generate_stream", Api::tgi_generate, false},
    {"tgi_generate_stream_error", Api::tgi_generate, false},
    {"edge_cr", Api::openai_chat, true},
    {"edge_crlf", Api::openai_chat, true},
    {"edge_comments_multiline", Api::openai_chat, true},
    {"edge_no_final_blank_line", Api::openai_chat, true},
};

std::string without_usage_event(std::string body) {
  const auto usage = body.find(R"("usage":{)");
  if (usage == std::string::npos) return body;
  const auto before = body.rfind("\n\n", usage);
  const auto begin = before == std::string::npos ? 0 : before + 2;
  return body.erase(begin, body.find("\n\n", usage) + 2 - begin);
}

TEST(RelaySplit, OfWholeStreamsInEveryFramingToEveryClient) {
  for (const auto& sample : samples) {
    const auto body = metrics::measure::sample(std::string(sample.file) + ".sse");
    const Script framings[]{
        {"chunked", {}, sse_head() + in_chunks(body, 5), std::nullopt},
        {"length", {}, sse_head("Content-Length: " + std::to_string(body.size()) + "\r\n") + body, std::nullopt},
        {"until close", {}, sse_head("", "HTTP/1.0") + body, End::closed},
    };
    for (auto script : framings)
      for (const bool http_1_1 : {true, false})
        for (const bool strip : {false, true}) {
          if (strip && sample.api == Api::tgi_generate) continue;
          script.setup.api = sample.api;
          script.setup.http_1_1 = http_1_1;
          script.setup.injected = strip;
          const bool lf = std::string_view(sample.file).substr(0, 4) != "edge";
          script.body = !strip ? std::optional(body) : lf ? std::optional(without_usage_event(body)) : std::nullopt;
          // If only its close ended it, the held part of its last event is dropped, and an error event follows.
          const bool truncated = script.end && std::string_view(sample.file) == "vllm_chat_truncated";
          if (strip && truncated) script.body.reset();
          const auto name = std::string(sample.file) + " " + script.name;
          same_however_split({name, script.setup, script.bytes, script.end, script.body}, false);
        }
  }
}

TEST(RelaySplit, OfStreamsThatBreakAnywhere) {
  const auto body = ":hi\n\n" + token("a") + token("b") + usage_event + finish_event + done_event;
  const auto chunked = sse_head() + in_chunks(body, 9);
  const auto sized = sse_head("Content-Length: " + std::to_string(body.size()) + "\r\n") + body;
  for (const auto& response : {chunked, sized, sse_head("") + body})
    for (std::size_t size = 0; size < response.size(); size += 5)
      for (const auto how : {End::reset, End::closed}) {
        Circumstances setup;
        setup.keep_errors = size % 2 == 0;
        setup.injected = size % 3 == 0;
        setup.http_1_1 = size % 4 != 0;
        const auto sent = response.substr(0, size);
        const Script script{"broken after " + std::to_string(size), setup, sent, how};
        const auto whole = play(script, {size});
        ASSERT_EQ(play(script, {1}), whole) << script.name;
        ASSERT_EQ(play(script, {size / 2 + 1}), whole) << script.name;
      }
}

TEST(RelaySplit, OfEveryOtherAnswer) {
  Circumstances once;
  once.keep_errors = once.leaves_errors = true;
  Circumstances not_streamed;
  not_streamed.stream = false;
  Circumstances head = not_streamed;
  head.to_head = true;
  Circumstances injected = once;
  injected.injected = true;
  const std::string json = R"({"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],)"
                           R"("usage":{"prompt_tokens":9,"completion_tokens":2}})";
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
  const Script scripts[]{
      {"json", not_streamed, whole_answer("200 OK", json), std::nullopt, json},
      {"json behind interim answers", not_streamed, interim + whole_answer("200 OK", json), std::nullopt, json},
      {"a stream behind interim answers",
       {},
       interim + sse_head() + chunk(token("a") + done_event) + last_chunk,
       std::nullopt,
       token("a") + done_event},
      {"a short answer behind longer interim ones", not_streamed, interim + "HTTP/1.1 204 x\r\n\r\n", std::nullopt, ""},
      {"a refusal", {}, whole_answer("503 Busy", "busy"), std::nullopt, "busy"},
      {"a refusal that is kept", once, whole_answer("503 Busy", "busy"), std::nullopt, ""},
      {"a refusal that is kept and breaks off", once, whole_answer("503 Busy", "busy").substr(0, 80), End::closed, ""},
      {"a refusal that is too large to be kept", once, whole_answer("503 Busy", std::string(66'000, 'x')), {}, ""},
      {"a refused option", injected, whole_answer("400 Bad Request", "{}"), std::nullopt, ""},
      {"an in-band refusal",
       {},
       sse_head() + chunk(refusing_event + done_event) + last_chunk,
       std::nullopt,
       refusing_event + done_event},
      {"an in-band refusal that is kept", once, sse_head() + chunk(":\n\n" + refusing_event + done_event) + last_chunk,
       std::nullopt, ""},
      {"an in-band refusal without an end", once, sse_head() + chunk(":\n\n" + refusing_event), End::reset, ""},
      {"to HEAD", head, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", std::nullopt, ""},
      {"204", not_streamed, "HTTP/1.1 204 No Content\r\n\r\n", std::nullopt, ""},
      {"304", not_streamed, "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", std::nullopt, ""},
      {"a malformed head", {}, "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", std::nullopt, ""},
      {"a head with bare LF", once, "HTTP/1.1 200 OK\nX: y\n\n", std::nullopt, ""},
      {"a chunk size that is none", {}, sse_head() + chunk(token("a")) + "x\r\n", std::nullopt},
      {"a chunk size that is none, at once", once, sse_head() + "x\r\n" + chunk(token("a")), std::nullopt, ""},
      {"a broken chunk behind the marker",
       {},
       sse_head() + chunk(token("a") + done_event) + "x\r\n",
       std::nullopt,
       token("a") + done_event},
      {"a cut document", not_streamed, whole_answer("200 OK", json).substr(0, 120), End::closed},
      {"comments alone", {}, sse_head() + chunk(":\n\n:\n\n") + last_chunk, std::nullopt, ":\n\n:\n\n"},
      {"nothing", {}, sse_head() + last_chunk, std::nullopt, ""},
      {"a long event that was asked to be stripped", injected,
       sse_head() + in_chunks(token(std::string(9'000, 'x')) + usage_event + done_event, 1), std::nullopt,
       token(std::string(9'000, 'x')) + done_event},
  };
  for (const auto& script : scripts) same_however_split(script, script.bytes.size() < 400);
}

TEST(RelaySplit, OfAHeadAtItsLimit) {
  const auto head_of = [](std::size_t size) {
    const std::string begin = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ", end = "\r\n\r\n";
    return begin + std::string(size - begin.size() - end.size(), 'x') + end;
  };
  const std::vector<std::vector<std::size_t>> splits{{64 * 1024}, {64 * 1024 - 1, 2}, {1000}, {40'000, 30'000}};
  for (const auto& sizes : splits) {
    AttemptStory largest, larger;
    largest.arrives_split(head_of(64 * 1024), sizes);
    EXPECT_EQ(largest.machine->reply(), Reply::relayed);
    larger.arrives_split(head_of(64 * 1024 + 1), sizes);
    EXPECT_EQ(larger.machine->outcome(), Outcome::upstream_error);
    EXPECT_EQ(larger.machine->reply(), Reply::none);
    AttemptStory endless;
    endless.arrives_split(head_of(70'000).substr(0, 64 * 1024 + 1), sizes);
    EXPECT_TRUE(endless.machine->done()) << "no end is waited for beyond the limit";
  }
}

}  // namespace
}  // namespace weir::proxy::exchange
