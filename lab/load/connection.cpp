#include "lab/load/connection.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/url.hpp>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "lab/text.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/stream/sse.hpp"

namespace weir::lab::load {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

Connection::Connection(asio::io_context& io, const Server& server, Later& later)
    : socket_(io), server_(server), later_(later) {}

void Connection::run(Outgoing outgoing, Done done) {
  bytes_ = std::move(outgoing.bytes);
  result_ = std::move(outgoing.result);
  reader_ = std::move(outgoing.reader);
  done_ = std::move(done);
  result_.started = std::chrono::steady_clock::now();
  reused_ = open_;
  open_ ? exchange() : connect();
}

void Connection::connect() {
  ++generation_;
  error_code ignored;
  socket_.tcp().close(ignored);
  buffer_.clear();
  socket_.tcp().async_connect(server_.endpoint, [self = shared_from_this(), mine = generation_](error_code ec) {
    if (mine != self->generation_) return;
    if (ec) return self->fail("connect", ec.message());
    error_code none;
    self->socket_.tcp().set_option(asio::ip::tcp::no_delay(true), none);
    net::stamp_arrivals(self->socket_.tcp().native_handle());
    if (self->server_.tls) return self->shake_hands();
    self->open_ = true;
    self->exchange();
  });
}

void Connection::shake_hands() {
  tls_ = std::make_shared<Tls>(socket_, *server_.tls);
  net::expect_host(tls_->native_handle(), server_.host);
  tls_->async_handshake(Tls::client, [self = shared_from_this(), tls = tls_, mine = generation_](error_code ec) {
    if (mine != self->generation_) return;
    if (ec) return self->fail("connect", net::handshake_problem(tls->native_handle(), ec));
    self->open_ = true;
    self->exchange();
  });
}

void Connection::exchange() {
  ++generation_;
  any_byte_ = head_seen_ = streams_ = false;
  parser_.emplace();
  parser_->eager(true);
  parser_->body_limit(boost::none);
  parser_->get().body().on_bytes = [this](std::string_view bytes) { on_body(bytes); };
  write_pending_ = true;
  result_.sent = std::chrono::steady_clock::now();
  const auto written = [self = shared_from_this(), tls = tls_, mine = generation_](error_code, std::size_t) {
    // If something went wrong, the read reports it; perhaps an answer is there.
    if (mine == self->generation_) self->write_pending_ = false;
  };
  if (tls_) {
    asio::async_write(*tls_, asio::buffer(bytes_), written);
  } else {
    asio::async_write(socket_.tcp(), asio::buffer(bytes_), written);
  }
  read();
}

void Connection::read() {
  const auto came = [self = shared_from_this(), tls = tls_, mine = generation_](error_code ec, std::size_t n) {
    if (mine != self->generation_) return;
    self->read_at_ = self->socket_.arrived();
    self->later_.put([self, mine, ec, n] {
      if (mine == self->generation_) self->on_read(ec, n);
    });
  };
  const asio::mutable_buffer room(buffer_.prepare(read_size + StreamReader::padding).data(), read_size);
  if (tls_) {
    tls_->async_read_some(room, came);
  } else {
    socket_.async_read_some(room, came);
  }
}

void Connection::on_read(error_code ec, std::size_t n) {
  buffer_.commit(n);
  if (n > 0) any_byte_ = true;
  if (ec) return on_end_of_connection(ec);
  while (buffer_.size() > 0 && !parser_->is_done()) {
    error_code parse;
    const std::size_t used = parser_->put(buffer_.data(), parse);
    buffer_.consume(used);
    if (!result_.head && parser_->is_header_done()) result_.head = read_at_;
    if (parse == http::error::need_more) break;
    if (parse) return fail("invalid", "the answer is not valid HTTP: " + parse.message());
    if (used == 0) break;
  }
  parser_->is_done() ? answered() : read();
}

void Connection::on_end_of_connection(error_code ec) {
  // The server closed a kept connection while the request was on its way, so the request goes out once more.
  if (reused_ && !any_byte_) {
    reused_ = false;
    open_ = false;
    return connect();
  }
  if (ec != asio::error::eof) return fail("reset", ec.message());
  error_code end;
  if (any_byte_) parser_->put_eof(end);
  open_ = false;
  if (any_byte_ && !end && parser_->is_done()) return answered();
  fail("reset", "the connection was closed before the answer was whole");
}

void Connection::on_body(std::string_view bytes) {
  if (!head_seen_) {
    head_seen_ = true;
    result_.status = parser_->get().result_int();
    streams_ = result_.status == 200 && reader_.reads(200, content_type(), coded());
  }
  result_.bytes_out += bytes.size();
  if (streams_) return reader_.feed(bytes, read_at_);
  if (result_.status == 200) return;
  result_.detail.append(bytes.substr(0, detail_limit - std::min(detail_limit, result_.detail.size())));
}

bool Connection::coded() const {
  const auto coding = parser_->get()[http::field::content_encoding];
  return !coding.empty() && !boost::beast::iequals(coding, "identity");
}

void Connection::answered() {
  const auto& head = parser_->get();
  result_.status = head.result_int();
  result_.replica = std::string(head["x-weir-replica"]);
  // A request still being sent cannot share its connection with the next one.
  if (write_pending_ || !parser_->keep_alive() || buffer_.size() > 0) {
    open_ = false;
  }
  const auto set = [this](std::string outcome, std::string_view detail) {
    result_.outcome = std::move(outcome);
    result_.detail = std::string(detail.substr(0, detail_limit));
  };
  reader_.end(!parser_->need_eof(), read_at_);
  const Stream stream = reader_.stream();
  const metrics::record::Answer& answer = stream.answer;
  const std::string type = content_type();
  if (result_.status != 200) {
    set("http_" + std::to_string(result_.status), std::string(result_.detail));
  } else if (answer.in_band_error) {
    set("in_band", stream.error);
  } else if (coded()) {
    set("invalid", "the answer is coded, though the request accepts no coding");
  } else if (answer.complete != metrics::Completeness::none) {
    // Some servers send events under a wrong type.
  } else if (!boost::beast::iequals(type.substr(0, 17), "text/event-stream")) {
    set("invalid", "expected text/event-stream, got \"" + type + "\"");
  } else {
    set("truncated", "the stream ended without its end marker, or without a finish reason for its choice");
  }
  finish(read_at_);
}

void Connection::fail(std::string_view outcome, std::string_view detail) {
  open_ = false;
  result_.outcome = outcome;
  result_.detail = std::string(detail.substr(0, detail_limit));
  if (parser_ && parser_->is_header_done()) {
    result_.status = parser_->get().result_int();
    result_.replica = std::string(parser_->get()["x-weir-replica"]);
  }
  finish(std::chrono::steady_clock::now());
}

void Connection::finish(Moment ended) {
  result_.stream = reader_.stream();
  ++generation_;
  if (!open_) {
    error_code ignored;
    socket_.tcp().close(ignored);
    buffer_.clear();
  }
  result_.ended = ended;
  if (!done_) return;
  // The call is posted, because the owner may start the next request on this very connection.
  asio::post(socket_.get_executor(), [self = shared_from_this(), done = std::exchange(done_, nullptr),
                                      result = std::move(result_)]() mutable { done(self, std::move(result)); });
}

Target target_of(const std::string& url) {
  const auto parsed = boost::urls::parse_uri(url);
  const bool known = parsed && (parsed->scheme() == "http" || parsed->scheme() == "https");
  if (!known || parsed->host().empty()) {
    throw std::invalid_argument("the URL must be http://host[:port][/path] or https://..., got \"" + url + "\"");
  }
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument("the URL \"" + url + "\" " + why); };
  if (parsed->has_userinfo()) refuse("has a user before its host, who is not sent; leave out all before the @");
  // getaddrinfo takes a port modulo 65536, and Boost.URL takes what follows its digits for a path.
  if (parsed->has_port()) {
    const std::string_view digits = parsed->port();
    unsigned port = 0;
    const bool is_number = std::from_chars(digits.data(), digits.data() + digits.size(), port).ec == std::errc();
    const bool is_all = parsed->encoded_path().empty() || parsed->encoded_path().starts_with('/');
    if (!is_number || !is_all || port < 1 || port > 65535) refuse("has no port from 1 to 65535 behind its host");
  }
  Target target;
  target.tls = parsed->scheme() == "https";
  target.host = parsed->host_type() == boost::urls::host_type::ipv6 ? parsed->host_address() : parsed->host();
  target.port = parsed->has_port() ? std::string(parsed->port()) : target.tls ? "443" : "80";
  target.prefix = std::string(parsed->encoded_path());
  while (target.prefix.ends_with('/')) target.prefix.pop_back();
  target.authority = std::string(parsed->encoded_host_and_port());
  return target;
}

std::string without_v1(std::string url) {
  std::string asked = url;
  while (url.ends_with('/')) url.pop_back();
  if (!url.ends_with("/v1") || url.ends_with("//v1")) return asked;
  url.resize(url.size() - 3);
  while (url.ends_with('/')) url.pop_back();
  return url;
}

double seconds_of(Moment moment) { return std::chrono::duration<double>(moment.time_since_epoch()).count(); }

std::optional<Course> course_of(const Result& result) {
  const Stream& stream = result.stream;
  const auto first_token = stream.answer.first_token;
  if (!first_token) return std::nullopt;
  Course course;
  course.sent = seconds_of(result.started);
  course.prompt_tokens = result.prompt_tokens();
  double at = seconds_of(*first_token);
  course.events.push_back(at);
  for (const float gap : stream.gaps) course.events.push_back(at += static_cast<double>(gap));
  // The event that ends an answer may be empty, and yet stand for a token, the end of the sequence.
  const std::uint64_t empty = stream.closed_empty() ? 1 : 0;
  const std::uint64_t tokens = stream.output_tokens();
  if (course.events.size() > 1 && tokens > course.events.size() + empty) {
    course.tokens_per_event = static_cast<double>(tokens - empty - 1) / static_cast<double>(course.events.size() - 1);
  }
  return course;
}

namespace {

using metrics::measure::StreamMeter;

metrics::Api api_of(Api api) { return metrics::wire::api_of("POST", path_of(api)); }

/// The meter counts into series, which nobody reads here.
metrics::series::ReplicaShard& unread_series() {
  thread_local metrics::series::ReplicaShard shard;
  return shard;
}

/// Calls `on_event` with the data of each event that ends in these bytes.
template <class OnEvent>
void each_event(metrics::wire::SseFramer& framer, std::string_view bytes, OnEvent on_event) {
  framer.feed(bytes);
  metrics::wire::SseEvent event;
  while (framer.next(event)) on_event(event.data);
}

/// Returns the words of an event that is an error: its message, or the whole of it.
std::string words_of(std::string_view event) {
  const auto root = object_of(event);
  const auto error = root ? value_at(*root, "error") : std::nullopt;
  if (!error || error->is_null()) return std::string(event);
  std::string_view text;
  if (error->get(text) == simdjson::SUCCESS) return std::string(text);
  JsonObject object;
  const auto told = error->get(object) == simdjson::SUCCESS ? field<std::string_view>(object, "message") : std::nullopt;
  return told ? std::string(*told) : simdjson::minify(*error);
}

}  // namespace

bool StreamReader::reads(unsigned status, std::string_view content_type, bool coded) const {
  using metrics::measure::BodyForm;
  return metrics::measure::body_form(api_of(api_), status, content_type, coded, true) == BodyForm::sse;
}

void StreamReader::feed(std::string_view bytes, Moment at) {
  if (!meter_) {
    StreamMeter::Options options;
    options.api = api_of(api_);
    options.form = metrics::measure::BodyForm::sse;
    meter_ = std::make_unique<StreamMeter>(options, unread_series());
  }
  const std::uint32_t token_events = meter_->arrived(bytes, at).token_events;
  for (std::uint32_t i = 0; i < token_events; ++i) {
    if (stream_.last_token) stream_.gaps.push_back(std::chrono::duration<float>(at - *stream_.last_token).count());
    stream_.last_token = at;
  }
  if (stream_.error.empty()) find_error(bytes);
}

void StreamReader::end(bool framed, Moment at) {
  if (!meter_) return;
  meter_->ended(true, framed, at);
  if (stream_.error.empty()) find_error("\n\n");
}

/// Takes the error's words from its event, of which earlier reads may have brought a part.
void StreamReader::find_error(std::string_view bytes) {
  constexpr std::size_t most = 16 * 1024;
  const bool failed = meter_->answer().in_band_error;
  if (!failed && meter_->at_event_boundary()) return unended_.clear();
  if (unended_.size() + bytes.size() > most) unended_.clear();
  unended_ += bytes;
  if (!failed) return;
  const std::size_t size = unended_.size();
  unended_.append(padding, ' ');
  metrics::wire::SseFramer framer(StreamMeter::carry_limit);
  metrics::wire::EventFacts facts;
  each_event(framer, std::string_view(unended_).substr(0, size), [&](std::string_view data) {
    facts.clear();
    metrics::wire::read_event(api_of(api_), data, facts);
    if (facts.error && stream_.error.empty()) stream_.error = words_of(data);
  });
  if (stream_.error.empty()) stream_.error = "an error event";
}

Stream StreamReader::stream() const {
  Stream all = stream_;
  if (meter_) all.answer = meter_->answer();
  return all;
}

std::optional<double> Stream::tpot() const {
  if (!answer.first_token) return std::nullopt;
  const std::uint64_t n = output_tokens(), n1 = answer.first_output_tokens.value_or(1);
  const Moment end = answer.output_tokens ? *answer.last_choice : *last_token;
  if (n <= n1 || end == *answer.first_token) return std::nullopt;
  return metrics::seconds(end - *answer.first_token) / static_cast<double>(n - n1);
}

}  // namespace weir::lab::load
