// A connection of the load client, its reader of streams, and a load's course.
//
// It sends a request, reads its streamed answer, and keeps the connection for the next one.
//
// A single thread uses it. The moment of a read is when the kernel had received its last bytes. Sending and reading run
// together, so that an early refusal is not lost.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/load/workload.hpp"
#include "lab/net/sockets.hpp"
#include "lab/text.hpp"
#include "metrics/measure/stream_meter.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::lab::load {

using metrics::Moment;

/// A streamed answer, as far as it was read.
struct Stream {
  metrics::record::Answer answer;    ///< What weir's meter measured.
  std::optional<Moment> last_token;  ///< The last token event came then.
  std::vector<float> gaps;           ///< The seconds between token events.
  std::string error;                 ///< The words of an error event; "" if there was none.

  /// Returns the engine's count, or else what weir counts while a stream flows.
  std::uint64_t output_tokens() const { return answer.output_tokens.value_or(answer.counted_tokens); }
  /// Returns (last - first) / (n - n1). With the engine's count the last is that of a choice, else of a token event.
  /// A stream of one token has none.
  std::optional<double> tpot() const;
  /// True if an event without a token ended the answer.
  bool closed_empty() const { return last_token && answer.last_choice > last_token; }
};

class StreamReader {
 public:
  /// So many bytes must be readable (not meaningful) behind bytes that are read.
  static constexpr std::size_t padding = metrics::measure::StreamMeter::padding;

  explicit StreamReader(Api api) : api_(api) {}

  /// True if weir would read an answer with this head as an event stream.
  bool reads(unsigned status, std::string_view content_type, bool coded) const;
  /// Takes body bytes, without framing, that were read at `at`. Bytes of one moment are one read.
  void feed(std::string_view bytes, Moment at);
  /// Says that the body ended whole. `framed` is false where the close is its end.
  void end(bool framed, Moment at);
  /// Returns what was read so far.
  Stream stream() const;

 private:
  void find_error(std::string_view bytes);

  Api api_;
  std::unique_ptr<metrics::measure::StreamMeter> meter_;  ///< Null until the first byte.
  Stream stream_;                                         ///< All but the answer.
  std::string unended_;                                   ///< The end of what was read, if an event goes on behind it.
};

/// How one request went.
struct Result {
  std::string request_id;
  std::uint64_t number = 0;  ///< The number that the workload gave the request.
  /// The outcome is "ok", or the kind of failure: connect, http_<status>, in_band, truncated (ended in good order
  /// without its end marker), reset (the connection broke), timeout, invalid (no HTTP, or no event stream), unfinished
  /// (the user ended the load; no failure).
  std::string outcome = "ok";
  std::string detail;   ///< The failure's own words, cut.
  std::string replica;  ///< The answer's x-weir-replica; "" if absent.
  unsigned status = 0;
  bool warm_up = false;  ///< The request began in the load's warm-up, so that no figure has it.
  std::uint64_t prompt_target = 0;
  std::uint64_t output_target = 0;       ///< Sent as max_tokens.
  std::optional<Moment> sent;            ///< The first byte was written; with a second attempt, that of the second.
  std::optional<Moment> head;            ///< The answer's head was read.
  std::uint64_t bytes_in = 0;            ///< Bytes of the request's body.
  std::uint64_t bytes_out = 0;           ///< Bytes of the answer's body.
  std::uint64_t in_flight_at_start = 0;  ///< Other requests of this load that ran.
  double in_flight_mean = 0;             ///< The mean number of them, this one included, while it ran.
  /// The request as weir reads it; only if a log is written.
  std::shared_ptr<const metrics::wire::RequestFacts> facts;
  std::optional<Moment> due;  ///< In an open load it was to begin then.
  Moment started{};           ///< Taken before connecting or, on a kept connection, before sending.
  Moment ended{};             ///< The read that brought the end; of a failure, when it was found.
  Stream stream;              ///< The answer, if its status is 200 and weir would read it as a stream.

  bool ok() const { return outcome == "ok"; }
  /// True if the user ended the load while the request ran. That is no failure.
  bool was_ended() const { return outcome == "unfinished"; }
  /// Returns a failure in a report's words: "http_503: busy".
  std::string failure() const { return outcome + (detail.empty() ? "" : ": " + detail); }
  /// Returns the moment from which latencies count. A load that is late would else leave out what its requests waited
  /// for it, and measure the less the worse it gets (coordinated omission).
  Moment begun() const { return due.value_or(started); }
  std::uint64_t prompt_tokens() const { return stream.answer.prompt_tokens.value_or(prompt_target); }
};

struct Outgoing {
  std::string bytes;  ///< Head and body.
  Result result{};    ///< As far as it is known before the request is sent.
  StreamReader reader{Api::chat};
};

/// A Beast body that hands its bytes on in place.
struct StreamBody {
  struct value_type {
    std::function<void(std::string_view)> on_bytes;
  };
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(boost::beast::http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::system::error_code& ec) { ec = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& ec) {
      ec = {};
      std::size_t n = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers);
           ++it) {
        const boost::asio::const_buffer part = *it;
        body_.on_bytes({static_cast<const char*>(part.data()), part.size()});
        n += part.size();
      }
      return n;
    }
    void finish(boost::system::error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

/// Work that waits until no read is ready. The bytes of a read are parsed when there is time, so that what has come on
/// one connection delays the reading, and with it the next request, of no other.
class Later {
 public:
  void put(std::function<void()> work) { work_.push_back(std::move(work)); }
  /// Returns false if there was none.
  bool run_one() {
    if (work_.empty()) return false;
    const auto work = std::move(work_.front());
    work_.pop_front();
    work();
    return true;
  }

 private:
  std::deque<std::function<void()>> work_;
};

/// Where the connections of a load go.
struct Server {
  boost::asio::ip::tcp::endpoint endpoint;
  std::shared_ptr<boost::asio::ssl::context> tls{};  ///< Null: in clear.
  std::string host{};                                ///< The certificate has this name or address.
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Done = std::function<void(std::shared_ptr<Connection>, Result)>;

  /// `server` outlives the connection.
  Connection(boost::asio::io_context& io, const Server& server, Later& later);

  /// Sends a request. `done` is called once, never from inside this call. It is not to be called while another request
  /// runs.
  void run(Outgoing outgoing, Done done);
  /// Ends the current request with this outcome and closes the connection.
  void fail(std::string_view outcome, std::string_view detail);
  bool reusable() const { return open_; }
  Moment started() const { return result_.started; }

 private:
  using Tls = boost::asio::ssl::stream<net::StampedSocket&>;

  void connect();
  void shake_hands();
  void exchange();
  void read();
  void on_read(boost::system::error_code ec, std::size_t n);
  void on_end_of_connection(boost::system::error_code ec);
  void on_body(std::string_view bytes);
  std::string content_type() const { return std::string(parser_->get()[boost::beast::http::field::content_type]); }
  bool coded() const;
  void answered();
  void finish(Moment ended);

  static constexpr std::size_t read_size = 16 * 1024;
  static constexpr std::size_t detail_limit = 200;

  net::StampedSocket socket_;
  const Server& server_;
  std::shared_ptr<Tls> tls_;  ///< Lies above the socket. Its handlers keep it.
  Later& later_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::response_parser<StreamBody>> parser_;
  std::string bytes_;  ///< Head and body, sent once more if need be.
  Result result_;
  StreamReader reader_{Api::chat};
  Done done_;
  Moment read_at_{};
  std::uint64_t generation_ = 0;  ///< Handlers of an earlier socket or request do nothing.
  bool open_ = false;
  bool reused_ = false;  ///< The current request went out on a kept connection.
  bool any_byte_ = false;
  bool head_seen_ = false;
  bool streams_ = false;  ///< The answer is an event stream.
  bool write_pending_ = false;
};

// A target says where an HTTP service is, from a URL as users write it.

struct Target {
  bool tls = false;       ///< The URL is https.
  std::string host;       ///< A name or an address, without brackets.
  std::string port;       ///< "80" or "443" if the URL has none.
  std::string prefix;     ///< The path without a slash at its end; "" for the root.
  std::string authority;  ///< The Host header takes it as it is.
};

/// Throws std::invalid_argument with a sentence if the URL cannot be used.
Target target_of(const std::string& url);

/// Returns the URL without "/v1" and slashes at its end: SDKs want a base URL with it, and the paths of a load have it.
std::string without_v1(std::string url);

// When each token event of an answer came, for figures over a part of the time in which a load ran.

/// The moments of one request for its client, in seconds of the monotonic clock.
struct Course {
  double sent = 0;
  std::vector<double> events;   ///< The moments of its token events, in order; at least one.
  double tokens_per_event = 1;  ///< The mean of all events but the first; more than 1 with speculative decoding.
  std::uint64_t prompt_tokens = 0;
};

double seconds_of(Moment moment);

/// Returns nothing for a request that brought no token.
std::optional<Course> course_of(const Result& result);

// Whether answers are as long as asked for where `ignore_eos` asked for exactly that. An engine that does not know the
// member ignores it, and says nothing.

class EndedEarly {
 public:
  /// Only an answer whose engine told its tokens counts.
  void add(const Result& result) {
    if (!result.ok() || !result.stream.answer.output_tokens) return;
    ++answers_;
    if (*result.stream.answer.output_tokens < result.output_target) ++early_;
  }
  /// Returns a sentence if any answer was shorter.
  std::optional<std::string> warning() const {
    if (early_ == 0) return std::nullopt;
    return std::to_string(early_) + " of " + counted(answers_, "answer") +
           " had fewer tokens than asked for, although ignore_eos was sent; the engine may not know it.";
  }

 private:
  std::uint64_t answers_ = 0, early_ = 0;
};

// Counts the requests in flight, and their mean while one of them ran.

class InFlight {
 public:
  /// A request as it was when it began.
  struct Begun {
    metrics::Moment at{};
    double area = 0;
    std::uint64_t others = 0;  ///< Requests in flight already.
  };

  Begun begin(metrics::Moment now) {
    advance(now);
    return {now, area_, count_++};
  }

  /// Returns the mean number in flight since `begun`, that request included.
  double end(const Begun& begun, metrics::Moment now) {
    advance(now);
    --count_;
    const double lasted = metrics::seconds(now - begun.at);
    return lasted > 0 ? (area_ - begun.area) / lasted : static_cast<double>(begun.others + 1);
  }

 private:
  void advance(metrics::Moment now) {
    area_ += static_cast<double>(count_) * metrics::seconds(now - last_);
    last_ = now;
  }

  std::uint64_t count_ = 0;
  double area_ = 0;  ///< The integral of the count over time, in seconds.
  metrics::Moment last_{};
};

}  // namespace weir::lab::load
