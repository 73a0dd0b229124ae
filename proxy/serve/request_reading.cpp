#include "proxy/serve/request_reading.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "metrics/moment.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/request/inspector.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/http/body_decoder.hpp"
#include "proxy/http/credential.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/serve/body.hpp"

namespace weir::proxy::serve {
namespace {

using Clock = std::chrono::steady_clock;
using metrics::series::Limit;
using ReadResult = ClientConnection::ReadResult;
using metrics::Moment;

constexpr std::size_t most_spare = std::size_t{16} * 1024;

}  // namespace

RequestReading::End RequestReading::refuse(http::OwnAnswer answer, std::optional<Limit> limit) {
  if (limit) loop_.shard.limit_hits.add(*limit);
  refusal_ = std::make_unique<http::OwnAnswer>(std::move(answer));
  return End::refused;
}

RequestReading::End RequestReading::refuse(unsigned status, std::string_view sentence, std::optional<Limit> limit) {
  const auto* const type = status == 408 ? "timeout_error" : "invalid_request_error";
  return refuse(http::error_answer(status, type, "bad_request", sentence), limit);
}

/// Nothing is wrong with the request.
RequestReading::End RequestReading::refuse_for_memory(Limit limit, std::string_view sentence) {
  return refuse(http::overloaded_answer(503, "no_memory", sentence, loop_.time_to_retry()), limit);
}

RequestReading::End RequestReading::no_room(Limit limit) {
  return refuse_for_memory(limit, limit == Limit::buffer_memory
                                      ? "weir's memory for requests (limits.buffer_memory) is spent: try again soon"
                                      : "the requests of this address or key hold as much of weir's memory as "
                                        "limits.buffer_share allows: try again when one of them has ended");
}

RequestReading::End RequestReading::gave_way() {
  return refuse_for_memory(Limit::buffer_memory,
                           "weir's memory for requests (limits.buffer_memory) is spent, and this request came more "
                           "slowly than others: try again soon");
}

/// The deadline has passed: by this limit, or because weir cuts all that is under way, which is no limit of the
/// client's.
RequestReading::End RequestReading::out_of_time(std::string_view sentence, Limit limit) {
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return refuse(http::stopping_answer());
  return refuse(408, sentence, limit);
}

net::Awaitable<RequestReading::End> RequestReading::head() {
  auto& unread = client_.unread();
  request_.snapshot = loop_.shared.fleet.snapshot();
  const auto now = Clock::now();
  client_.last_arrival = now;  // The bytes that are there came while the previous answer was sent.
  drop_line_end();
  const bool idle = unread.empty();
  client_.pay_no_more();
  request_.message.budget_hold.set(unread.capacity());
  client_.set_deadline(now + metrics::ticks(idle ? limits().client_idle : limits().head_time), idle);
  // An idle connection keeps no snapshot, so its next request sees current settings.
  if (idle) request_.snapshot = nullptr;
  std::size_t seen = 0;
  std::optional<std::size_t> length;
  std::optional<BodyRoom> room;  // Only a long head has one: none of the idle connections has to be looked at.
  for (;;) {
    length = http::head_length(unread, seen);
    if (length || (request_.snapshot && unread.size() > limits().request_head)) break;
    seen = unread.size();
    const auto at_once = client_.readable();
    const bool ready = at_once ? *at_once : co_await client_.await_readable();
    if (room && room->gave_way()) co_return gave_way();
    if (!ready && !client_.timed_out()) co_return End::closed;
    if (!ready && !unread.empty()) co_return out_of_time("the request head did not come in time", Limit::head_time);
    std::span<char> bytes;
    const auto result = client_.read(bytes);
    if (result == ReadResult::end) co_return End::closed;
    // A request that came in the very moment in which the idle connection was to be closed is answered.
    if (!ready && result == ReadResult::nothing) co_return End::closed;
    if (result == ReadResult::nothing) continue;
    if (unread.empty()) {
      // A short request pays for no memory, so it gets none that counts.
      const bool spare_counts = loop_.spare_text.capacity() >= net::BufferBudget::step;
      if (unread.capacity() < loop_.spare_text.capacity() && (!spare_counts || bytes.size() >= net::BufferBudget::step))
        unread.swap(loop_.spare_text);
      request_.snapshot = loop_.shared.fleet.snapshot();
      client_.set_deadline(Clock::now() + metrics::ticks(limits().head_time));
    }
    unread.append(bytes.data(), bytes.size());
    if (drop_line_end()) {
      seen = 0;
      if (unread.empty()) {
        client_.set_deadline(Clock::now() + metrics::ticks(limits().client_idle), true);
        room.reset();  // It refers to the snapshot.
        request_.snapshot = nullptr;
        continue;
      }
    }
    if (!room && unread.capacity() < net::BufferBudget::step) continue;  // Not counted.
    if (!room) room.emplace(loop_, client_, request_.snapshot->settings, request_.message, request_.client);
    room->received(Clock::now(), bytes.size());
    const bool is_whole = http::head_length(unread, seen).has_value();
    if (const auto limit = room->pay_for_head(is_whole)) co_return no_room(*limit);
  }
  client_.set_deadline(metrics::Moment::max());
  co_return take_head(length);
}

/// Leaves the memory of a short text to the next request of the loop.
void RequestReading::give_back(std::string& text) {
  auto& spare = loop_.spare_text;
  if (text.capacity() > spare.capacity() && text.capacity() <= most_spare) spare.swap(text);
  spare.clear();
  std::string().swap(text);
}

/// Old clients send a CRLF behind a body that does not belong to it. One in front of a request line is ignored (RFC
/// 9112, 2.2). Returns true if it was there.
bool RequestReading::drop_line_end() {
  auto& unread = client_.unread();
  if (dropped_line_end_ || !unread.starts_with("\r\n")) return false;
  unread.erase(0, 2);
  dropped_line_end_ = true;
  return true;
}

/// Reads the head that lies in front of the unread bytes; without a length, it is too long.
RequestReading::End RequestReading::take_head(std::optional<std::size_t> length) {
  auto& unread = client_.unread();
  auto& message = request_.message;
  auto& head = message.head;
  if (!length || *length > limits().request_head) {
    const bool long_line = unread.find("\r\n") > http::max_request_line;
    const auto refusal = long_line ? http::refusal_of(http::HeadError::target_too_long)
                                   : http::Refusal{431, "the request head is larger than limits.request_head allows"};
    return refuse(refusal.status, refusal.sentence, Limit::request_head);
  }
  message.head_bytes.assign(unread, 0, *length);
  unread.erase(0, *length);
  auto parsed = http::parse_request_head(message.head_bytes);
  if (!parsed) {
    const auto refusal = http::refusal_of(parsed.error());
    return refuse(refusal.status, refusal.sentence);
  }
  head = std::move(*parsed);
  bool came_back = false;
  for (const auto& field : head.fields) {
    if (http::may_pass_for_another(field)) loop_.shard.dropped_fields.add();
    came_back |= field.known == http::FieldName::via && http::names_this_weir(field.value);
  }
  if (came_back)
    return refuse(http::error_answer(508, "invalid_request_error", "loop_detected",
                                     "this request has come through this weir before: its replicas, or a proxy among "
                                     "them, lead back to it"));
  const auto& keys = request_.snapshot->keys;
  if (keys) cut_keys(*keys, message.head_bytes, head);
  auto& client_id = request_.ids.client;
  client_id = http::valid_request_id(head[http::FieldName::x_request_id]).value_or("");
  if (keys && http::holds_key(client_id, {})) client_id.clear();
  const auto& server = request_.snapshot->settings.server;
  if (const auto plain = http::without_spare_slashes(head.method, head.path, server.paths)) {
    message.head_bytes.replace(static_cast<std::size_t>(head.path.data() - message.head_bytes.data()), head.path.size(),
                               *plain);
    head = *http::parse_request_head(message.head_bytes);
  }
  const bool preflight = !server.cors_origins.empty() && http::is_preflight(head);
  message.route = preflight ? http::Route::preflight : http::route_of(head.method, head.path, server.paths);
  message.api = metrics::wire::api_of(head.method, head.path);
  message.bypassed = loop_.shared.bypass.load(std::memory_order_relaxed);
  return End::whole;
}

RequestReading::End RequestReading::body_is_late(bool stopped) {
  return stopped ? out_of_time("the request body stopped coming", Limit::body_time)
                 : out_of_time("the request body comes more slowly than limits.body_rate allows", Limit::body_rate);
}

/// True if nothing but the model's name is read of a bypassed request: that decides where it goes, or whether it may.
bool RequestReading::reads_model_alone() const {
  const auto& key = request_.client.key;
  return request_.message.bypassed && (request_.snapshot->model_decides() || (key && !key->settings.models.empty()));
}

net::Awaitable<RequestReading::End> RequestReading::body() {
  auto& message = request_.message;
  const auto& head = message.head;
  auto& unread = client_.unread();
  const bool wants_prefix = !message.bypassed && (logs_prefixes() || request_.snapshot->is_prefix_aware());
  metrics::wire::RequestInspector inspector(message.api, head.method, head.path, &loop_.shared.keys.conversation,
                                            wants_prefix ? &loop_.shared.keys.prefix : nullptr);
  metrics::wire::ModelReader model;
  const bool reads_model = reads_model_alone();
  std::optional<BodyModel> body_model;
  if (!message.bypassed || reads_model) body_model.emplace(head);
  http::BodyDecoder decoder(head.framing, head.content_length);
  bool too_large = head.framing == http::Framing::length && head.content_length > limits().request_body;
  if (!too_large && head.expects_continue && !decoder.finished() && unread.empty())
    if (!co_await client_.write("HTTP/1.1 100 Continue\r\n\r\n", request_.snapshot->settings)) co_return End::left;
  BodyRoom room(loop_, client_, request_.snapshot->settings, message, request_.client);
  if (const auto full = too_large || decoder.finished() ? std::nullopt : room.may_begin()) co_return no_room(*full);
  std::size_t framing = 0;  // The bytes there besides the payload.
  std::string rest;
  rest.swap(unread);
  std::span<char> bytes = rest;
  while (!too_large) {
    const auto decoded = decoder.decode(bytes);
    framing += decoded.consumed - decoded.payload.size();
    too_large = std::max(framing, message.body.size() + decoded.payload.size()) > limits().request_body;
    if (too_large) break;
    if (const auto limit = room.make_room(decoded.payload.size())) co_return no_room(*limit);
    message.body.append(decoded.payload.data(), decoded.payload.size());
    if (reads_model) model.feed(decoded.payload);
    if (!message.bypassed) inspector.feed(decoded.payload);
    if (body_model) body_model->read(message.body);
    if (decoder.finished()) {
      end_body(rest, {bytes.data() + decoded.consumed, bytes.size() - decoded.consumed});
      break;
    }
    if (decoder.failed()) co_return refuse(400, "the request's chunked body is malformed");
    give_back(rest);  // The body pays for itself alone.
    const auto now = Clock::now();
    room.received(now, decoded.payload.size());
    const auto stopped = now + metrics::ticks(limits().body_time), behind = room.behind_at(limits().body_rate);
    for (bytes = {}; bytes.empty();) {
      client_.set_deadline(std::min(stopped, behind));
      const auto at_once = client_.readable();
      const bool ready = at_once ? *at_once : co_await client_.await_readable();
      if (room.gave_way()) co_return gave_way();
      if (!ready && !client_.timed_out()) co_return End::left;
      if (!ready) co_return body_is_late(stopped <= behind);
      if (client_.read(bytes) == ReadResult::end) co_return End::left;
    }
  }
  client_.set_deadline(metrics::Moment::max());
  if (too_large)
    co_return refuse(413, "the request body is larger than limits.request_body allows", Limit::request_body);
  auto facts = message.bypassed ? metrics::wire::facts_of_unread(head.method, model) : inspector.finish();
  if (body_model && facts.model.empty()) facts.model = body_model->take(message.body);
  take_facts(std::move(facts));
  if (wants_prefix) take_prefix(inspector);
  co_return End::whole;
}

/// Keeps what came behind the body, and gives the text back in which it was read.
void RequestReading::end_body(std::string& rest, std::string_view behind) {
  auto& message = request_.message;
  client_.keep(behind);
  give_back(rest);
  // Without a body nothing has told yet that the head is all that is left of what was read.
  if (message.body.empty()) message.budget_hold.set(message.head_bytes.capacity());
}

bool RequestReading::logs_prefixes() const {
  const auto& log = request_.snapshot->settings.log;
  return log.prefixes && !log.requests.empty();
}

void RequestReading::take_facts(metrics::wire::RequestFacts facts) {
  const auto& head = request_.message.head;
  facts.empties_cache = metrics::wire::empties_cache(head.method, head.path);
  facts.gives_work = facts.gives_work && !http::kept_path(head.method, head.path);
  request_.message.facts = std::make_shared<const metrics::wire::RequestFacts>(std::move(facts));
}

/// Which pool gets the request is known by its model, once the body is whole.
void RequestReading::take_prefix(metrics::wire::RequestInspector& inspector) {
  auto& message = request_.message;
  const auto* const pool = request_.snapshot->pool_for(message.facts->model);
  if (pool == nullptr || !(logs_prefixes() || pool->settings.is_prefix_aware())) return;
  auto prefix = inspector.take_prefix(
      exchange::prefix_seed(loop_.shared.keys.fair_by, pool->settings.prefix_isolation, request_.client.key_name()));
  if (prefix && logs_prefixes()) message.prefixes = metrics::wire::marks_of(*prefix, loop_.shared.keys.mark);
  if (pool->settings.is_prefix_aware()) message.prefix = std::move(prefix);
}

namespace {

using metrics::series::Denied;

constexpr std::string_view bad_request = "invalid_request_error";

/// True if the text holds the word in any case.
bool has_charset(std::string_view text) {
  constexpr std::string_view word = "charset";
  for (; text.size() >= word.size(); text.remove_prefix(1))
    if (http::same_token(text.substr(0, word.size()), word)) return true;
  return false;
}

/// True for a media type that every engine reads as JSON in UTF-8 (or in ASCII, a part of it).
bool is_json_in_utf8(std::string_view content_type) {
  const auto ends_in = [](std::string_view text, std::string_view end) {
    return text.size() >= end.size() && http::same_token(text.substr(text.size() - end.size()), end);
  };
  bool first = true;
  for (;;) {
    const auto end = content_type.find(';');
    const auto part = http::trim(content_type.substr(0, end));
    if (std::exchange(first, false)) {
      if (!http::same_token(part, "application/json") && !ends_in(part, "+json")) return false;
    } else if (part.find_first_of("\"'\\*") != part.npos || has_charset(part)) {
      constexpr std::string_view harmless[]{"charset=utf-8", "charset=\"utf-8\"", "charset=utf8", "charset=us-ascii",
                                            "charset=\"us-ascii\""};
      if (!http::is_among(harmless, part)) return false;
    }
    if (end == content_type.npos) return true;
    content_type.remove_prefix(end + 1);
  }
}

/// True if the head says that the body's bytes are something else than JSON in UTF-8. A head without a Content-Type
/// says nothing.
bool is_read_otherwise(const http::RequestHead& head) {
  return std::ranges::any_of(head.fields, [](const http::HeaderField& field) {
    return field.known == http::FieldName::content_encoding ||
           (field.known == http::FieldName::content_type && !is_json_in_utf8(field.value));
  });
}

}  // namespace

void cut_keys(const keys::ClientKeys& keys, std::string& head_bytes, http::RequestHead& head) {
  const auto is_key = [&keys](std::string_view text) { return keys.find(text) != nullptr; };
  if (http::cut_keys(head_bytes, head, is_key)) head = *http::parse_request_head(head_bytes);
}

std::optional<http::OwnAnswer> two_keys(const keys::ClientKeys* keys, const http::RequestHead& head) {
  const auto other = keys != nullptr ? http::other_credential_of(head) : std::string_view();
  if (other.empty() || keys->find(other) == nullptr || keys->find(http::credential_of(head)) == nullptr)
    return std::nullopt;
  return http::error_answer(400, bad_request, "bad_request",
                            "Authorization and x-api-key hold different keys; send one of them");
}

std::optional<Denied> find_key(const std::shared_ptr<const keys::ClientKeys>& keys,
                               const exchange::ClientMessage& message, exchange::ClientIdentity& client,
                               exchange::RequestIds& ids) {
  // A browser sends a preflight before the request of a page, without the page's credential.
  const bool open = message.route == http::Route::health || message.route == http::Route::preflight;
  if (!keys || open) return std::nullopt;
  const auto credential = http::credential_of(message.head), other = http::other_credential_of(message.head);
  const auto* key = keys->find(credential);
  if (key == nullptr) key = keys->find(other);
  if (key == nullptr) return credential.empty() ? Denied::no_key : Denied::wrong_key;
  client.key = {keys, key};
  if (http::holds_key(ids.client, credential) || http::holds_key(ids.client, other)) ids.client.clear();
  return std::nullopt;
}

http::OwnAnswer denied_answer(Denied why) {
  return http::error_answer(401, bad_request, "invalid_api_key",
                            why == Denied::no_key
                                ? "a key is needed here: send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
                                : "the key that was sent is not known here; ask whoever runs this service for one");
}

std::optional<http::OwnAnswer> model_refusal(const keys::ClientKey* key, const http::RequestHead& head,
                                             const metrics::wire::RequestFacts& facts) {
  if (key == nullptr || key->settings.models.empty()) return std::nullopt;
  const bool read_otherwise = is_read_otherwise(head);
  if (facts.whole_json && !facts.model_twice && !read_otherwise && key->may_use(facts.model)) return std::nullopt;
  std::string allowed;
  for (const auto& model : key->settings.models) allowed += (allowed.empty() ? "" : ", ") + model;
  const auto about = read_otherwise ? std::string(
                                          "has to send its body as application/json in UTF-8 and without a "
                                          "Content-Encoding: engines differ on what others mean")
                     : !facts.whole_json || facts.model.empty() ? std::string("has to name its model in a JSON body")
                     : facts.model_twice ? std::string("may name its model once: engines differ on which of two counts")
                                         : "may not use the model '" + facts.model + "'";
  return http::error_answer(
      403, bad_request, "model_not_allowed",
      "a request with the key '" + key->settings.name + "' " + about + "; the key is good for: " + allowed);
}

http::OwnAnswer key_busy_answer(const keys::ClientKey& key, std::chrono::milliseconds wait) {
  const auto most = std::to_string(key.settings.max_in_flight.value_or(0));
  return http::overloaded_answer(429, "key_max_in_flight",
                                 "the key '" + key.settings.name + "' has as many requests under way as it may, " +
                                     most + "; send this one again when one of them has ended",
                                 wait);
}

}  // namespace weir::proxy::serve
