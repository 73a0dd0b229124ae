// Feeds a body to RequestInspector whole, byte by byte and as the input cuts it. The facts must be the same and within
// bounds, and the edits that ask for usage must leave the body the JSON that it was.
//
// An input has the API, the path, two bytes for the cuts, and the body.
#include <simdjson.h>

#include <array>
#include <memory>

#include "metrics/wire/request/edits.hpp"
#include "metrics/wire/request/inspector.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace weir::metrics;
using namespace weir::metrics::wire;
using weir::fuzz::must;

/// Paths that tell the API by themselves, and one that does not.
constexpr std::array<std::string_view, 8> paths{
    "/v1/chat/completions",   "/generate_stream",           "/generate",     "/completion", "/api/chat",
    "/api/v1/generate/check", "/api/extra/generate/stream", "/v1/embeddings"};

RequestFacts facts_of(Api api, std::string_view path, const std::vector<std::string_view>& pieces) {
  static const ConversationKey key({1, 2});
  RequestInspector inspector(api, "POST", path, &key);
  for (const std::string_view piece : pieces) {
    // The piece gets memory of its own, so that a read behind it is seen.
    const auto copy = std::make_unique<char[]>(piece.size());
    std::copy(piece.begin(), piece.end(), copy.get());
    inspector.feed({copy.get(), piece.size()});
  }
  return inspector.finish();
}

/// Compares everything but what the edits that ask for usage change.
void must_be_equal(const RequestFacts& a, const RequestFacts& b) {
  must(a.api == b.api, "api");
  must(a.model == b.model, "model");
  must(a.stream == b.stream, "stream");
  must(a.max_tokens == b.max_tokens, "max_tokens");
  must(a.n == b.n, "n");
  must(a.greedy == b.greedy, "greedy");
  must(a.tools == b.tools, "tools");
  must(a.images == b.images, "images");
  must(a.prompt_token_ids == b.prompt_token_ids, "prompt_token_ids");
  must(a.text.code_points == b.text.code_points, "code_points");
  must(a.text.messages == b.text.messages, "messages");
  must(a.text.tool_bytes == b.text.tool_bytes, "tool_bytes");
  must(a.user_messages == b.user_messages, "user_messages");
  must(a.conversation == b.conversation, "conversation");
  must(a.names == b.names, "names");
  must(a.whole_json == b.whole_json, "whole_json");
  must(a.first_member_at == b.first_member_at, "first_member_at");
  must(a.empty_object == b.empty_object, "empty_object");
}

void must_be_bounded(const RequestFacts& facts, std::size_t bytes) {
  must(facts.model.size() <= 128, "model is short");
  must(facts.max_tokens.value_or(0) <= most_tokens, "max_tokens is believable");
  must(facts.n >= 1, "n is at least 1");
  must(facts.images <= bytes, "an image needs a byte");
  must(facts.prompt_token_ids.value_or(0) <= bytes, "a token id needs a byte");
  must(facts.text.chars() <= bytes, "a character needs a byte");
  must(facts.text.messages <= bytes, "a message needs a byte");
  must(facts.user_messages <= bytes, "a message of the user needs a byte");
  must(facts.conversation == 0 || facts.user_messages > 0, "a conversation has a turn");
  must(facts.text.tool_bytes <= bytes, "compact JSON is not longer");
  must(facts.whole_json == facts.first_member_at.has_value(), "a whole object has a first member's place");
}

bool is_json(const std::string& text) {
  static simdjson::dom::parser parser;
  return parser.parse(text).error() == simdjson::SUCCESS;
}

void must_take_the_edits(const RequestFacts& facts, std::string_view path, std::string_view body, Ask ask) {
  const RequestEdits edits = edits_that_ask(ask, facts, body);
  must(edits.empty() == (edits.asked == Ask::nothing), "edits ask for something");
  if (edits.empty()) return;
  must(facts.stream && facts.whole_json && !facts.empty_object, "only in a request that streams");
  must(ask == Ask::timings_on_every_chunk || !facts.usage_requested, "only where it is missing");
  std::uint64_t at = 0;
  for (const RequestEdit& edit : edits.list()) {
    must(at <= edit.at && edit.at + edit.erased <= body.size(), "edits are in order and inside");
    const std::string_view erased = body.substr(edit.at, edit.erased);
    must(erased.empty() || erased == "null" || erased == "false", "only a value that says no is replaced");
    at = edit.at + edit.erased;
  }
  std::vector<std::string_view> spans;
  edits.append(body, spans);
  std::string after;
  for (const std::string_view span : spans) after += span;
  must(after.size() == edits.size_of(body.size()), "Content-Length follows");
  must(!is_json(std::string(body)) || is_json(after), "the edits leave the body JSON");
  const RequestFacts again = facts_of(facts.api, path, {after});
  must_be_equal(again, facts);
  const bool asks = ask == Ask::timings_on_every_chunk ? again.token_timings : again.usage_requested;
  must(asks, "the edits ask for what they should");
  must(edits_that_ask(ask, again, after).empty(), "once is enough");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  weir::fuzz::Input input(bytes, size);
  const Api api = static_cast<Api>(input.take() % api_names.size());
  const std::string_view path = paths[input.take() % paths.size()];
  weir::fuzz::Cuts cuts(input.take(), input.take());
  const std::string_view body = input.rest();

  const RequestFacts whole = facts_of(api, path, {body});
  const auto bytewise = weir::fuzz::pieces(body, [] { return std::size_t{1}; });
  const auto cut = weir::fuzz::pieces(body, [&] { return cuts.next(); });
  for (const auto& pieces : {bytewise, cut}) {
    const RequestFacts facts = facts_of(api, path, pieces);
    must_be_equal(facts, whole);
    must(facts.usage_requested == whole.usage_requested, "usage_requested");
    must(facts.stream_options == whole.stream_options, "stream_options");
    must(facts.token_timings == whole.token_timings, "token_timings");
  }
  must_be_bounded(whole, body.size());
  for (const Ask ask : {Ask::usage, Ask::usage_on_every_chunk, Ask::timings_on_every_chunk})
    must_take_the_edits(whole, path, body, ask);
  return 0;
}
