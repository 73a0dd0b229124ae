#include "proxy/probe_exchange.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "metrics/stream_meter.hpp"
#include "proxy/arrival.hpp"
#include "proxy/body_decoder.hpp"
#include "proxy/upstream.hpp"

namespace weir::proxy {
namespace {

using Clock = std::chrono::steady_clock;
using boost::asio::ip::tcp;

constexpr std::size_t read_size = 64 * 1024;
constexpr std::size_t longest_head = 64 * 1024;

std::string seconds_of(Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", std::chrono::duration<double>(time).count());
  return text;
}

Exchanged failed(std::string why) { return {ExchangeEnd::failed, std::move(why)}; }
Exchanged failed(const char* what, int error) { return failed(std::string(what) + ": " + std::strerror(error)); }

/// False once the deadline has passed.
bool ready(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd waited{fd, events, 0};
    const int n = ::poll(&waited, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (n > 0) return true;
  }
}

std::string bytes_of(const config::ReplicaUrl& url, const ProbeRequest& request) {
  std::string bytes(request.method);
  bytes += " " + url.prefix + request.path + " HTTP/1.1\r\nhost: " + url.authority +
           "\r\nuser-agent: weir-probe\r\naccept: */*\r\nconnection: close\r\n";
  if (request.method == "POST")
    bytes += "content-type: application/json\r\ncontent-length: " + std::to_string(request.body.size()) + "\r\n";
  return bytes + "\r\n" + request.body;
}

/// Reads one answer, piece by piece, until it has ended.
class Answer {
 public:
  Answer(AnswerReader& reader, Clock::time_point sent) : reader_(reader), sent_(sent) {}

  /// An end, or nothing while there is more to come. `piece` has padding behind it.
  std::optional<Exchanged> arrived(std::span<char> piece, metrics::Moment at) {
    if (in_body_) return body(piece, at);
    head_.append(piece.data(), piece.size());
    for (;;) {
      const auto length = head_length(head_, 0);
      if (!length && head_.size() > longest_head) return failed("the head of its answer is too long");
      if (!length) return std::nullopt;
      const auto parsed = parse_response_head(std::string_view(head_).substr(0, *length), false);
      if (!parsed || parsed->status == 101) return failed("it does not answer in HTTP/1.1");
      if (parsed->status >= 200) {
        reader_.head(*parsed, sent_, at);
        decoder_ = BodyDecoder(parsed->framing, parsed->content_length);
        break;
      }
      head_.erase(0, *length);
    }
    in_body_ = true;
    std::vector<char> rest(head_.begin() + static_cast<std::ptrdiff_t>(*head_length(head_, 0)), head_.end());
    const auto size = rest.size();
    rest.resize(size + metrics::StreamMeter::padding);
    return body({rest.data(), size}, at);
  }

  Exchanged closed(metrics::Moment at) {
    if (!in_body_) return failed("it closes the connection without an answer");
    const bool whole = decoder_.ends_with_close();
    reader_.end(whole, false, at);
    return whole ? Exchanged{ExchangeEnd::answered, ""} : failed("its answer breaks off");
  }

 private:
  std::optional<Exchanged> body(std::span<char> piece, metrics::Moment at) {
    const auto decoded = decoder_.decode(piece);
    if (!decoded.payload.empty() && !reader_.body(decoded.payload, at)) return failed("its answer is too long");
    if (decoder_.failed()) return failed("the framing of its answer is broken");
    if (!decoder_.finished()) return std::nullopt;
    reader_.end(true, true, at);
    return Exchanged{ExchangeEnd::answered, ""};
  }

  AnswerReader& reader_;
  Clock::time_point sent_;
  std::string head_;
  bool in_body_ = false;
  BodyDecoder decoder_;
};

}  // namespace

std::variant<tcp::endpoint, std::string> address_of(const config::ReplicaUrl& url, Clock::duration limit) {
  using Found = std::pair<boost::system::error_code, tcp::resolver::results_type>;
  // A thread of its own, which outlives this call where the system's resolver does not come back in time.
  std::packaged_task<Found()> look_up([host = url.host, port = std::to_string(url.port)] {
    boost::asio::io_context context{1};
    Found found;
    found.second = tcp::resolver(context).resolve(host, port, tcp::resolver::numeric_service, found.first);
    return found;
  });
  auto answer = look_up.get_future();
  std::thread(std::move(look_up)).detach();
  if (answer.wait_for(limit) != std::future_status::ready)
    return "cannot look up " + url.host + " within " + seconds_of(limit);
  const auto [error, found] = answer.get();
  if (error || found.empty()) return "cannot look up " + url.host + ": " + error.message();
  return found.begin()->endpoint();
}

Exchanged exchange_with(const tcp::endpoint& endpoint, const config::ReplicaUrl& url, const ProbeRequest& request,
                        const ProbeLimits& limits, config::ReadClock clock, AnswerReader& reader) {
  const auto socket = begin_connect(endpoint);
  if (!socket) return failed("cannot connect", errno);
  if (!ready(socket.get(), POLLOUT, Clock::now() + limits.connect))
    return {ExchangeEnd::timed_out, "cannot connect within " + seconds_of(limits.connect)};
  if (const int error = connect_error(socket.get())) return failed("cannot connect", error);

  const ArrivalClock arrivals(clock);
  arrivals.enable(socket.get());
  const auto deadline = Clock::now() + limits.answer;
  const Exchanged too_late{ExchangeEnd::timed_out, "no answer within " + seconds_of(limits.answer)};
  const auto bytes = bytes_of(url, request);
  std::optional<Clock::time_point> sent;
  for (std::string_view left = bytes; !left.empty();) {
    if (!ready(socket.get(), POLLOUT, deadline)) return too_late;
    // Before the call: over loopback an answer can be stamped before it returns.
    const auto now = Clock::now();
    const auto n = ::send(socket.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return failed("cannot send", errno);
    if (n <= 0) continue;
    if (!sent) sent = now;
    left.remove_prefix(static_cast<std::size_t>(n));
  }

  Answer answer(reader, *sent);
  std::vector<char> buffer(read_size + metrics::StreamMeter::padding);
  for (;;) {
    if (!ready(socket.get(), POLLIN, deadline)) return too_late;
    const auto read = arrivals.read(socket.get(), {buffer.data(), read_size});
    if (read.size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (read.size < 0) return failed("the connection breaks", errno);
    if (read.size == 0) return answer.closed(read.at);
    if (auto end = answer.arrived({buffer.data(), static_cast<std::size_t>(read.size)}, read.at)) return *end;
  }
}

}  // namespace weir::proxy
