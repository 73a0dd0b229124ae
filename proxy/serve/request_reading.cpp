#include "proxy/serve/request_reading.hpp"

#include <algorithm>

#include "metrics/ticks.hpp"
#include "metrics/wire/request/inspector.hpp"
#include "metrics/wire/request/model_reader.hpp"
#include "proxy/http/body_decoder.hpp"
#include "proxy/http/request_id.hpp"
#include "proxy/http/rewrite.hpp"
#include "proxy/http/via.hpp"
#include "proxy/serve/body_room.hpp"

namespace weir::proxy::serve {
namespace {

using Clock = std::chrono::steady_clock;
using metrics::series::Limit;
using ReadResult = ClientConnection::ReadResult;
using metrics::Moment;

}  // namespace

RequestReading::End RequestReading::refuse(unsigned status, std::string_view sentence, std::optional<Limit> limit) {
  refusal_ = {status, sentence, limit};
  return End::refused;
}

/// Nothing is wrong with the request.
RequestReading::End RequestReading::refuse_for_memory(Limit limit) {
  return refuse(503,
                limit == Limit::buffer_memory
                    ? "weir's memory for requests (limits.buffer_memory) is spent: try again soon"
                    : "the requests of this address or key hold as much of weir's memory as limits.buffer_share "
                      "allows: try again when one of them has ended",
                limit);
}

RequestReading::End RequestReading::gave_way() {
  return refuse(503,
                "weir's memory for requests (limits.buffer_memory) is spent, and this request came more slowly than "
                "others: try again soon",
                Limit::buffer_memory);
}

/// The deadline has passed: by this limit, or because weir cuts all that is under way.
RequestReading::End RequestReading::out_of_time(std::string_view sentence, Limit limit) {
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return End::cut;
  return refuse(408, sentence, limit);
}

net::Awaitable<RequestReading::End> RequestReading::head() {
  auto& unread = client_.unread();
  request_.snapshot = loop_.shared.fleet.snapshot();
  client_.set_last_arrival(Clock::now());  // The bytes that are there came while the previous answer was sent.
  drop_line_end();
  const bool idle = unread.empty();
  client_.pay_no_more();
  request_.budget_hold.set(unread.capacity());
  client_.set_deadline(Clock::now() + metrics::ticks(idle ? limits().client_idle : limits().head_time), idle);
  // A connection that waits for a request holds no snapshot: it would be an old one when the request comes.
  if (idle) request_.snapshot = nullptr;
  std::size_t seen = 0;
  std::optional<std::size_t> length;
  std::optional<BodyRoom> room;  // Only a long head has one: none of the idle connections has to be looked at.
  for (;;) {
    length = http::head_length(unread, seen);
    if (length || (request_.snapshot && unread.size() > limits().request_head)) break;
    seen = unread.size();
    const auto ready = co_await client_.readable();
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
      request_.snapshot = loop_.shared.fleet.snapshot();
      client_.set_deadline(Clock::now() + metrics::ticks(limits().head_time));
    }
    unread.append(bytes.data(), bytes.size());
    if (drop_line_end()) {
      seen = 0;
      if (unread.empty()) {
        client_.set_deadline(Clock::now() + metrics::ticks(limits().client_idle), true);
        request_.snapshot = nullptr;
        continue;
      }
    }
    if (!room && unread.capacity() < net::BufferBudget::step) continue;  // Not counted.
    if (!room) room.emplace(loop_, client_, request_);
    room->received(Clock::now(), bytes.size());
    if (const auto limit = room->pay_for_head()) co_return refuse_for_memory(*limit);
  }
  client_.set_deadline(metrics::Moment::max());
  co_return take_head(length);
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
  if (!length || *length > limits().request_head) {
    const bool long_line = unread.find("\r\n") > http::max_request_line;
    const auto refusal = long_line ? http::refusal_of(http::HeadError::target_too_long)
                                   : http::Refusal{431, "the request head is larger than limits.request_head allows"};
    return refuse(refusal.status, refusal.sentence, Limit::request_head);
  }
  request_.head_bytes.assign(unread, 0, *length);
  unread.erase(0, *length);
  auto head = http::parse_request_head(request_.head_bytes);
  if (!head) {
    const auto refusal = http::refusal_of(head.error());
    return refuse(refusal.status, refusal.sentence);
  }
  request_.head = std::move(*head);
  bool came_back = false;
  for (const auto& field : request_.head.fields) {
    if (http::may_pass_for_another(field.name)) loop_.shard.dropped_fields.add();
    came_back |= http::same_token(field.name, "via") && http::names_this_weir(field.value);
  }
  if (came_back) {
    refuse(508, "this request has come through this weir before: its replicas, or a proxy among them, lead back to it");
    refusal_.code = "loop_detected";
    return End::refused;
  }
  request_.client_id = http::valid_request_id(request_.head["x-request-id"]).value_or("");
  if (!request_.client_id.empty()) request_.request_id = request_.client_id;
  request_.route = http::route_of(request_.head.method, request_.head.path, request_.snapshot->settings.server.paths);
  return End::whole;
}

net::Awaitable<RequestReading::End> RequestReading::body() {
  const auto& head = request_.head;
  auto& unread = client_.unread();
  const auto api = request_.facts.api = metrics::wire::api_of(head.method, head.path);
  metrics::wire::RequestInspector inspector(api, head.method, head.path, loop_.shared.conversation_key);
  metrics::wire::ModelReader model;
  const bool of_some_models = request_.key != nullptr && !request_.key->settings.models.empty();
  const bool reads_model = request_.bypassed && (of_some_models || request_.snapshot->model_decides());
  http::BodyDecoder decoder(head.framing, head.content_length);
  bool too_large = head.framing == http::Framing::length && head.content_length > limits().request_body;
  if (!too_large && head.expects_continue && !decoder.finished() && unread.empty()) {
    std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
    const auto written = co_await client_.write(std::move(interim), request_.snapshot->settings);
    if (!written) co_return End::left;
  }
  BodyRoom room(loop_, client_, request_);
  if (!too_large && !decoder.finished()) {
    const auto limit = room.may_begin();
    if (limit) co_return refuse_for_memory(*limit);
  }
  std::size_t framing = 0;  // The bytes there besides the payload.
  std::string rest;
  rest.swap(unread);
  std::span<char> bytes = rest;
  while (!too_large) {
    const auto decoded = decoder.decode(bytes);
    framing += decoded.consumed - decoded.payload.size();
    too_large = std::max(framing, request_.body.size() + decoded.payload.size()) > limits().request_body;
    if (too_large) break;
    if (const auto limit = room.make_room(decoded.payload.size())) co_return refuse_for_memory(*limit);
    request_.body.append(decoded.payload.data(), decoded.payload.size());
    if (reads_model) model.feed(decoded.payload);
    if (!request_.bypassed) inspector.feed(decoded.payload);
    if (decoder.finished()) {
      client_.keep({bytes.data() + decoded.consumed, bytes.size() - decoded.consumed});
      // Without a body nothing has told yet that the head is all that is left of what was read.
      if (request_.body.empty()) request_.budget_hold.set(request_.head_bytes.capacity());
      break;
    }
    if (decoder.failed()) co_return refuse(400, "the request's chunked body is malformed");
    std::string().swap(rest);  // The body pays for itself alone.
    const auto now = Clock::now();
    room.received(now, decoded.payload.size());
    const auto stopped = now + metrics::ticks(limits().body_time), behind = room.behind_at(limits().body_rate);
    for (bytes = {}; bytes.empty();) {
      client_.set_deadline(std::min(stopped, behind));
      const auto ready = co_await client_.readable();
      if (room.gave_way()) co_return gave_way();
      if (!ready && !client_.timed_out()) co_return End::left;
      if (!ready && stopped <= behind) co_return out_of_time("the request body stopped coming", Limit::body_time);
      if (!ready)
        co_return out_of_time("the request body comes more slowly than limits.body_rate allows", Limit::body_rate);
      if (client_.read(bytes) == ReadResult::end) co_return End::left;
    }
  }
  client_.set_deadline(metrics::Moment::max());
  if (too_large)
    co_return refuse(413, "the request body is larger than limits.request_body allows", Limit::request_body);
  request_.facts = request_.bypassed ? metrics::wire::facts_of_unread(head.method, model) : inspector.finish();
  co_return End::whole;
}

}  // namespace weir::proxy::serve
