// A connection of weir's own to a replica, plain or TLS, for requests beside the data path: probes, pages, models,
// and `weir check --probe`.
//
// Its channel is one of the data path's: TLS is bounded and arrivals are stamped in one way. All streams of a context
// share a poller, which lives as long as the context.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/http/body_decoder.hpp"
#include "proxy/http/head.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/poller.hpp"

namespace weir::proxy::fleet {

class ReplicaStream final : net::Watcher {
 public:
  /// `limit` is for the operations together; after it they fail. On the context's thread.
  ReplicaStream(const boost::asio::io_context::executor_type& executor, net::Destination to,
                std::chrono::steady_clock::duration limit, config::ReadClock clock = config::ReadClock::read);
  ~ReplicaStream();
  ReplicaStream(const ReplicaStream&) = delete;
  ReplicaStream& operator=(const ReplicaStream&) = delete;
  /// Gives the operations that follow a limit of their own, from now on.
  void set_limit(std::chrono::steady_clock::duration limit);

  /// Connects, with the handshake. Returns 0 or an error as for net::connect_error_text(). `others` are addresses of
  /// the same name, tried in this order where its own takes no connection: one that does not answer leaves those behind
  /// it their share of the time. Each that is tried changes places with the one before.
  net::Awaitable<int> connect(std::span<net::Address> others = {});
  /// Returns the address that was tried last.
  const net::Address& address() const { return to_.address; }
  /// Returns false if that failed.
  net::Awaitable<bool> write(std::string_view bytes);
  /// Returns when the first byte was written: before the call, because over loopback an answer can be stamped before it
  /// returns.
  metrics::Moment sent() const { return sent_; }
  /// Returns how many bytes have come, and when; 0 at the end, -1 if that failed. An end of TLS without a close_notify
  /// is a failure, and so are tls::Socket::most_in_all records in a row without a byte.
  net::Awaitable<net::Channel::Read> read(std::span<char> into);
  /// True if an operation failed by the limit.
  bool timed_out() const { return timed_out_; }
  /// Returns why the replica refused weir, if that is why read() failed: see net::Channel::refusal().
  int refusal() const { return channel_ ? channel_->refusal() : 0; }
  /// Returns the system's word for why write() or read() failed.
  std::string error_text() const;
  /// Returns why write() or read() failed, as a clause: "it did not come within 5 s".
  std::string failure() const;

 private:
  net::Awaitable<int> connect_until(metrics::Moment until);
  net::Awaitable<bool> wait(std::uint32_t events, metrics::Moment until);
  bool is_too_late();
  void ready(std::uint32_t tag, std::uint32_t events) override;
  void prefetch(std::uint32_t, int) const override {}

  boost::asio::io_context& context_;
  net::Destination to_;
  std::chrono::steady_clock::duration limit_;
  metrics::Moment deadline_, sent_{};
  net::Timer timer_;  ///< Cancelled when an event has come.
  const net::ArrivalClock clock_;
  std::unique_ptr<net::Channel> channel_;
  std::uint32_t came_ = 0;  ///< The events of epoll that have come since the last wait for them.
  int error_ = 0;
  bool has_read_ = false, timed_out_ = false;
};

// A request of weir's own to a replica, and its answer as it comes. The probe and the model directory use it. It has no
// I/O and no clock.
//
// Heads go through the same gate and bodies through the same decoder as on the data path.

struct Question {
  std::string_view method = "GET";
  std::string path;        ///< The replica's prefix is put before it.
  std::string body;        ///< JSON, for POST.
  std::string credential;  ///< Fields, each with its CRLF.
  std::string_view user_agent = "weir";
};

/// Returns the field for weir's own key; "" without one.
std::string bearer(std::string_view api_key);

/// Returns the whole request. It asks for the connection to be closed behind its answer.
std::string bytes_of(const config::ReplicaUrl& url, const Question& question);

/// Takes an answer as it comes.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  /// Takes the head. `sent` is when the first byte of the request was written.
  virtual void head(const http::ResponseHead& head, metrics::Moment sent, metrics::Moment at) = 0;
  /// Takes body bytes. Returns false if enough was read. StreamMeter::padding bytes behind the span are readable.
  virtual bool body(std::span<const char> bytes, metrics::Moment at) = 0;
  /// Takes the end. `framed` is false if the close was the end.
  virtual void end(bool whole, bool framed, metrics::Moment at) = 0;
};

enum class QuestionEnd : std::uint8_t { answered, failed, timed_out };
struct QuestionResult {
  QuestionEnd end = QuestionEnd::failed;
  std::string why;  ///< A sentence without its end, set if there was no answer.
};

/// Reads one answer, piece by piece, until it has ended.
class ReplicaAnswer {
 public:
  ReplicaAnswer(AnswerReader& reader, metrics::Moment sent) : reader_(reader), sent_(sent) {}

  /// Takes a piece. Returns the end, or nothing while more is to come. `piece` has StreamMeter::padding bytes behind
  /// it.
  std::optional<QuestionResult> arrived(std::span<char> piece, metrics::Moment at);
  QuestionResult closed(metrics::Moment at);

 private:
  std::optional<QuestionResult> body(std::span<char> piece, metrics::Moment at);

  AnswerReader& reader_;
  metrics::Moment sent_;
  std::string head_;
  bool in_body_ = false;
  http::BodyDecoder decoder_;
};

// Asks a replica for a page of its own, on a connection of its own, without blocking: the watcher and the model
// directory use it. `weir check --probe` and weir's own commands wait for their answers.

struct PageAnswer {
  unsigned status = 0;  ///< 0 if there was no whole answer.
  std::string body;
  std::string why_none{};  ///< A clause, if a connection came about and no whole answer: "its answer is too long".
  bool begun = false;      ///< Its head came.
};

/// Keeps a page whole. A longer page than `longest` is no answer.
class PageReader final : public AnswerReader {
 public:
  PageReader(PageAnswer& page, std::size_t longest) : page_(page), longest_(longest) {}
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override {
    status_ = head.status;
    page_.begun = true;
  }
  bool body(std::span<const char> bytes, metrics::Moment) override {
    page_.body.append(bytes.data(), bytes.size());
    return page_.body.size() <= longest_;
  }
  void end(bool whole, bool, metrics::Moment) override { page_.status = whole ? status_ : 0; }

 private:
  PageAnswer& page_;
  std::size_t longest_;
  unsigned status_ = 0;
};

/// Reads the answer to what was written on a stream. Returns nothing if the stream failed: it says why.
net::Awaitable<std::optional<QuestionResult>> read_answer(ReplicaStream& stream, AnswerReader& reader);

/// Runs a coroutine to its end on a context that nothing else runs, and returns its result. What it throws is thrown.
template <class Result>
Result wait_for(boost::asio::io_context& context, net::Awaitable<Result> coroutine) {
  std::optional<Result> result;
  boost::asio::co_spawn(context, std::move(coroutine), [&](const std::exception_ptr& failure, Result returned) {
    if (failure) std::rethrow_exception(failure);
    result = std::move(returned);
  });
  while (!result) context.run_one();  // The wait of the streams' poller does not end by itself.
  return *std::move(result);
}

/// `limit` is for all of it. An answer of more than `longest` bytes is none. On the thread of the caller's executor.
net::Awaitable<PageAnswer> ask_for_page(std::shared_ptr<const Replica> replica, Question question,
                                        std::chrono::steady_clock::duration limit, std::size_t longest);

}  // namespace weir::proxy::fleet
