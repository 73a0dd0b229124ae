#include "proxy/fleet/replica_stream.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "config/values.hpp"
#include "metrics/measure/stream_meter.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/poller.hpp"
#include "proxy/net/tls/context.hpp"
#include "proxy/net/tls/tls_channel.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

/// The state that the streams of a context share. A service of the context outlives all that the context destroys with
/// its pending handlers, as a poller has to.
class Shared final : public asio::execution_context::service {
 public:
  using key_type = Shared;
  inline static asio::execution_context::id id;

  explicit Shared(asio::io_context& context) : service(context), handshaking(context, {}) { poller.start(context); }

  net::Poller poller;
  net::tls::Handshaking handshaking;

 private:
  void shutdown() override { poller.stop(); }
};

bool is_transient(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

ReplicaStream::ReplicaStream(const asio::io_context::executor_type& executor, net::Destination to,
                             Clock::duration limit, config::ReadClock clock)
    : context_(executor.context()),
      to_(std::move(to)),
      limit_(limit),
      deadline_(Clock::now() + limit),
      timer_(executor),
      clock_(clock) {}

ReplicaStream::~ReplicaStream() {
  if (channel_) channel_->watch(nullptr);
}

void ReplicaStream::set_limit(Clock::duration limit) {
  limit_ = limit;
  deadline_ = Clock::now() + limit;
}

void ReplicaStream::ready(std::uint32_t, std::uint32_t events) {
  came_ |= events;
  timer_.cancel();
}

/// Returns whether any of the events, or a hang-up, has come by then.
net::Awaitable<bool> ReplicaStream::wait(std::uint32_t events, metrics::Moment until) {
  boost::system::error_code ignored;
  while ((came_ & (events | net::hang_up_events)) == 0) {
    if (Clock::now() >= until) co_return false;
    timer_.expires_at(until);
    co_await timer_.async_wait(asio::redirect_error(net::use_awaitable, ignored));
  }
  came_ &= ~(events | net::hang_up_events);
  co_return true;
}

bool ReplicaStream::is_too_late() { return timed_out_ = Clock::now() >= deadline_; }

net::Awaitable<int> ReplicaStream::connect(std::span<net::Address> others) {
  auto left = static_cast<std::ptrdiff_t>(others.size());
  int error = 0;
  for (auto next = others.begin();; ++next, --left) {
    const auto now = Clock::now();
    const int failed = co_await connect_until(now + (deadline_ - now) / (left + 1));
    if (failed == 0) co_return 0;
    error = others.empty() ? failed : net::error_of_several(error, failed, to_.address);
    if (next == others.end()) co_return error;
    std::swap(to_.address, *next);
  }
}

net::Awaitable<int> ReplicaStream::connect_until(metrics::Moment until) {
  auto& shared = asio::use_service<Shared>(context_);
  if (channel_) channel_->watch(nullptr);
  came_ = 0;
  channel_ = net::SocketConnector({shared.poller, clock_, shared.handshaking}).connect(to_);
  if (!channel_) co_return errno;
  channel_->watch(this);
  if (co_await wait(EPOLLOUT, until)) co_return channel_->connect_error();
  timed_out_ = Clock::now() >= deadline_;
  co_return ETIMEDOUT;
}

net::Awaitable<bool> ReplicaStream::write(std::string_view bytes) {
  for (std::size_t written = 0; written < bytes.size();) {
    const auto now = Clock::now();
    const auto size = channel_->write({&bytes, 1}, written);
    if (size > 0) {
      if (written == 0) sent_ = now;
      written += static_cast<std::size_t>(size);
    } else if (size < 0 && !is_transient(errno)) {
      error_ = errno;
      co_return false;
    } else if (!co_await wait(EPOLLOUT, deadline_)) {
      timed_out_ = true;
      co_return false;
    }
  }
  co_return true;
}

net::Awaitable<net::Channel::Read> ReplicaStream::read(std::span<char> into) {
  for (; !is_too_late(); has_read_ = true) {
    if (has_read_) {
      // More of a long answer may be there. Others have their turn first.
      if (channel_->may_read()) channel_->rearm(EPOLLIN);
      if (!co_await wait(EPOLLIN, deadline_)) continue;
    }
    const auto got = channel_->read(into);
    error_ = got.size < 0 ? errno : 0;
    if (is_transient(error_)) continue;
    has_read_ = true;
    co_return got;
  }
  co_return net::Channel::Read{-1};
}

std::string ReplicaStream::error_text() const { return std::generic_category().message(error_); }

std::string ReplicaStream::failure() const {
  if (const int refused = refusal()) return net::tls::failure_text(refused);
  if (!timed_out_) return "its connection broke off: " + error_text();
  return "it did not come within " + config::format_number(std::chrono::duration<double>(limit_).count()) + " s";
}

namespace {

constexpr std::size_t longest_head = 64 * 1024;

QuestionResult failed(const char* why) { return {QuestionEnd::failed, why}; }

/// True if this may be the beginning of an answer.
bool begins_like_http(std::string_view head) {
  constexpr std::string_view begin = "HTTP/1.";
  return head.substr(0, begin.size()) == begin.substr(0, head.size());
}

}  // namespace

std::string bearer(std::string_view api_key) {
  return api_key.empty() ? std::string() : "authorization: Bearer " + std::string(api_key) + "\r\n";
}

std::string bytes_of(const config::ReplicaUrl& url, const Question& question) {
  std::string bytes(question.method);
  bytes += " " + url.prefix + question.path + " HTTP/1.1\r\nhost: " + url.authority + "\r\nuser-agent: ";
  bytes.append(question.user_agent).append("\r\naccept: */*\r\nconnection: close\r\n").append(question.credential);
  if (question.method == "POST")
    bytes += "content-type: application/json\r\ncontent-length: " + std::to_string(question.body.size()) + "\r\n";
  return bytes + "\r\n" + question.body;
}

std::optional<QuestionResult> ReplicaAnswer::arrived(std::span<char> piece, metrics::Moment at) {
  if (in_body_) return body(piece, at);
  head_.append(piece.data(), piece.size());
  for (;;) {
    // A server of another protocol may greet with a line, and wait for one.
    if (!begins_like_http(head_)) return failed("it does not answer in HTTP/1.1");
    const auto length = http::head_length(head_, 0);
    if (!length && head_.size() > longest_head) return failed("the head of its answer is too long");
    if (!length) return std::nullopt;
    const auto parsed = http::parse_response_head(std::string_view(head_).substr(0, *length), false);
    if (!parsed || parsed->status == 101) return failed("it does not answer in HTTP/1.1");
    if (parsed->status >= 200) {
      reader_.head(*parsed, sent_, at);
      decoder_ = http::BodyDecoder(parsed->framing, parsed->content_length);
      break;
    }
    head_.erase(0, *length);
  }
  in_body_ = true;
  std::vector<char> rest(head_.begin() + static_cast<std::ptrdiff_t>(*http::head_length(head_, 0)), head_.end());
  const auto size = rest.size();
  rest.resize(size + metrics::measure::StreamMeter::padding);
  return body({rest.data(), size}, at);
}

QuestionResult ReplicaAnswer::closed(metrics::Moment at) {
  if (!in_body_) return failed("it closes the connection without an answer");
  const bool whole = decoder_.ends_with_close();
  reader_.end(whole, false, at);
  return whole ? QuestionResult{QuestionEnd::answered, ""} : failed("its answer breaks off");
}

std::optional<QuestionResult> ReplicaAnswer::body(std::span<char> piece, metrics::Moment at) {
  const auto decoded = decoder_.decode(piece);
  if (!decoded.payload.empty() && !reader_.body(decoded.payload, at)) return failed("its answer is too long");
  if (decoder_.failed()) return failed("the framing of its answer is broken");
  if (!decoder_.finished()) return std::nullopt;
  reader_.end(true, true, at);
  return QuestionResult{QuestionEnd::answered, ""};
}

namespace {

constexpr std::size_t read_size = 16 * 1024;

}  // namespace

net::Awaitable<std::optional<QuestionResult>> read_answer(ReplicaStream& stream, AnswerReader& reader) {
  ReplicaAnswer answer(reader, stream.sent());
  std::vector<char> buffer(read_size + metrics::measure::StreamMeter::padding);
  const std::span<char> into(buffer.data(), read_size);
  for (;;) {
    const auto read = co_await stream.read(into);
    if (read.size < 0) co_return std::nullopt;
    if (read.size == 0) co_return answer.closed(read.at);
    auto end = answer.arrived(into.first(static_cast<std::size_t>(read.size)), read.at);
    if (end) co_return end;
  }
}

net::Awaitable<PageAnswer> ask_for_page(std::shared_ptr<const Replica> replica, Question question,
                                        Clock::duration limit, std::size_t longest) {
  PageAnswer page;
  auto destination = replica->destination();
  if (!destination) co_return page;
  const auto executor = co_await asio::this_coro::executor;
  ReplicaStream stream(executor, std::move(*destination), limit);
  if (co_await stream.connect() != 0) co_return page;
  if (!co_await stream.write(bytes_of(replica->settings.url, question))) {
    page.why_none = stream.failure();
    co_return page;
  }
  PageReader reader(page, longest);
  const auto end = co_await read_answer(stream, reader);
  page.why_none = end ? end->why : stream.failure();
  co_return page;
}

}  // namespace weir::proxy::fleet
