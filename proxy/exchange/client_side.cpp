#include "proxy/exchange/client_side.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>

#include "metrics/moment.hpp"
#include "proxy/http/writing.hpp"

namespace weir::proxy::exchange {

using http::ClientFraming;

void ClientOutput::clear() {
  spans.clear();
  chunk_heads_used_ = 0;
}

void ClientOutput::add_chunk_head(std::size_t size) {
  char* const begin = chunk_heads_[chunk_heads_used_++].data();
  char* end = std::to_chars(begin, begin + 16, size, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  spans.emplace_back(begin, static_cast<std::size_t>(end - begin));
}

std::size_t ClientOutput::size() const {
  std::size_t total = 0;
  for (const auto span : spans) total += span.size();
  return total;
}

void ClientFramer::head(const http::ResponseHead& head, bool strips, bool event_stream) {
  const auto unbounded = client_.http_1_1 ? ClientFraming::chunked : ClientFraming::close;
  progress_.framing = head.framing == http::Framing::none                ? ClientFraming::none
                      : head.framing == http::Framing::length && !strips ? ClientFraming::length
                                                                         : unbounded;
  keep_alive_ = client_.keep_alive && progress_.framing != ClientFraming::close;
  http::ClientAnswer answer;
  answer.http_1_1 = client_.http_1_1;
  answer.framing = progress_.framing;
  answer.length = head.content_length;
  answer.keep_alive = keep_alive_;
  answer.event_stream = event_stream;
  answer.request_id = client_.request_id;
  answer.weir_id = client_.weir_id;
  answer.replica = client_.replica;
  answer.cors = client_.cors_fields;
  head_ = http::client_head(head, answer);
  progress_.state = State::holding;
}

void ClientFramer::continue_early() {
  std::string().swap(head_);
  progress_.framing = ClientFraming::chunked;
  keep_alive_ = client_.early->keep_alive();
}

void ClientFramer::open(ClientOutput& out) {
  progress_.state = State::open;
  progress_.opened = wrote_ = true;
  if (!head_.empty()) out.spans.emplace_back(head_);
}

void ClientFramer::body(std::span<const std::string_view> body, std::span<char> read, ClientOutput& out) {
  if (progress_.state == State::holding) {
    for (const auto span : body) buffered_.append(span);
    return;
  }
  std::size_t size = buffered_.size();
  for (const auto span : body) size += span.size();
  if (size == 0) return;  // An empty chunk would end the body.
  progress_.bytes_out += size;
  wrote_ = true;
  const bool chunked = progress_.framing == ClientFraming::chunked;
  if (chunked && buffered_.empty() && body.size() == 1 && frame_in_place(body.front(), read, out)) return;
  if (chunked) out.add_chunk_head(size);
  if (!buffered_.empty()) {
    released_ = std::move(buffered_);
    buffered_.clear();
    out.spans.emplace_back(released_);
  }
  for (const auto span : body)
    if (!span.empty()) out.spans.push_back(span);
  if (chunked) out.spans.emplace_back("\r\n");
}

bool ClientFramer::written() {
  if (progress_.opened && !head_.empty()) std::string().swap(head_);
  if (!released_.empty()) std::string().swap(released_);
  return std::exchange(wrote_, false);
}

void ClientFramer::comment(ClientOutput& out) {
  wrote_ = true;
  out.spans.emplace_back(comment_chunk);
}

/// If a token came in a chunk of its own, there is room around it for weir's framing. It then goes out in one piece,
/// which the kernel takes in less time than four.
bool ClientFramer::frame_in_place(std::string_view body, std::span<char> read, ClientOutput& out) {
  const std::less<const char*> before;
  if (before(body.data(), read.data()) || before(read.data() + read.size(), body.data() + body.size())) return false;
  const auto room = static_cast<std::size_t>(body.data() - read.data());
  if (read.size() - room - body.size() < 2) return false;
  std::array<char, 16> digits;
  const auto written = std::to_chars(digits.begin(), digits.end(), body.size(), 16).ptr;
  const auto length = static_cast<std::size_t>(written - digits.data());
  if (room < length + 2) return false;
  char* const begin = read.data() + room - length - 2;
  std::copy(digits.data(), written, begin);
  std::copy_n("\r\n", 2, begin + length);
  std::copy_n("\r\n", 2, begin + length + 2 + body.size());
  out.spans.emplace_back(begin, length + 2 + body.size() + 2);
  return true;
}

void ClientFramer::finish(ClientOutput& out) {
  if (progress_.framing == ClientFraming::chunked) out.spans.emplace_back("0\r\n\r\n");
  progress_.state = State::whole;
}

void ClientFramer::cut(std::string_view why, ClientOutput& out) {
  const bool may_add = progress_.framing == ClientFraming::chunked || progress_.framing == ClientFraming::close;
  if (may_add && !why.empty()) {
    closing_ = http::error_event(client_.api, 502, http::OwnError::replica_lost(why));
    const std::string_view event = closing_;
    body({&event, 1}, {}, out);
  }
  progress_.state = State::cut;
}

void ClientFramer::cut_if_length_promised() {
  if (progress_.framing == ClientFraming::length) progress_.state = State::cut;
}

namespace {

using metrics::ticks;
using metrics::series::Limit;

/// The kernel is asked once a step, so as much as a step's bytes may be counted a step late.
std::size_t least_rate(const config::Limits& limits) {
  return limits.answer_rate - limits.answer_rate / net::RateWindow::steps;
}

}  // namespace

void ClientPace::begin(metrics::Moment now, const net::Channel& client, const config::Limits& limits) {
  taken_.begin(now, ticks(limits.client_stall));
  progress_ = looked_ = now;
  unacknowledged_ = client.unacknowledged();
}

/// A socket turns writable only when much of what the kernel holds has gone; the bytes left there show sooner who
/// stands still.
void ClientPace::took(metrics::Moment now, std::size_t written, const net::Channel& client) {
  const int left = client.unacknowledged();
  const auto there_were = static_cast<std::int64_t>(written) + unacknowledged_;
  taken_.add(now, static_cast<std::size_t>(std::max<std::int64_t>(there_were - left, 0)));
  if (written > 0 || left < unacknowledged_) progress_ = now;
  unacknowledged_ = left;
  looked_ = now;
}

std::optional<Limit> ClientPace::limit_hit(metrics::Moment now, const net::Channel& client,
                                           const config::Limits& limits) {
  took(now, 0, client);
  if (now - progress_ >= ticks(limits.client_stall)) return Limit::client_stall;
  if (taken_.behind_at(least_rate(limits)) <= now) return Limit::answer_rate;
  return std::nullopt;
}

metrics::Moment ClientPace::next_look(const config::Limits& limits) const {
  const auto step = ticks(limits.client_stall) / static_cast<int>(net::RateWindow::steps);
  return std::min(looked_ + step, taken_.behind_at(least_rate(limits)));
}

ClientWatch::ClientWatch(net::Channel& channel, std::string& unread, config::HalfClose half_close)
    : channel_(channel),
      unread_(unread),
      fin_is_leaving_(half_close == config::HalfClose::abort),
      gone_(channel.ended() >= (fin_is_leaving_ ? net::Channel::Ended::by_peer : net::Channel::Ended::broken)) {
  channel_.watch(this);
}

void ClientWatch::ready(std::uint32_t, std::uint32_t events) {
  try {
    look_at(events);
  } catch (...) {
    leave();
  }
}

void ClientWatch::leave() {
  gone_ = true;
  if (listener_ != nullptr) listener_->client_gone();
}

void ClientWatch::look_at(std::uint32_t events) {
  const std::uint32_t leaving = EPOLLHUP | EPOLLERR | (fin_is_leaving_ ? std::uint32_t{EPOLLRDHUP} : 0);
  if ((events & leaving) != 0) return leave();
  if ((events & EPOLLIN) != 0) {
    std::array<char, most_unread> bytes;
    const auto room = std::span(bytes).first(most_unread - std::min(most_unread, unread_.size()));
    const auto read = room.empty() ? net::Channel::Read{} : channel_.read(room);
    // The events tell of a FIN or a reset. A read that came short was the last one of this turn.
    if (read.size > 0) unread_.append(bytes.data(), static_cast<std::size_t>(read.size));
  }
  if ((events & EPOLLOUT) != 0 && listener_ != nullptr) listener_->client_writable();
}

}  // namespace weir::proxy::exchange
