#include "proxy/fleet/model_asking.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <exception>
#include <span>

#include "metrics/measure/stream_meter.hpp"
#include "proxy/fleet/question.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using Executor = asio::io_context::executor_type;
using Stream = boost::beast::basic_stream<asio::ip::tcp, Executor>;
using net::Timer;

constexpr std::chrono::seconds time_limit{2};
constexpr std::size_t read_size = 16 * 1024;

class ListReader final : public AnswerReader {
 public:
  explicit ListReader(std::size_t longest) : longest_(longest) {}
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override { status_ = head.status; }
  bool body(std::span<const char> bytes, metrics::Moment) override {
    body_.append(bytes.data(), bytes.size());
    return body_.size() <= longest_;
  }
  void end(bool whole, bool, metrics::Moment) override { whole_ = whole; }
  ModelAnswer told() const {
    return whole_ ? ModelAnswer{status_, status_ == 200 ? entries_of(body_) : ModelEntries()} : ModelAnswer();
  }

 private:
  std::size_t longest_;
  unsigned status_ = 0;
  std::string body_;
  bool whole_ = false;
};

/// Asks one replica for its models.
net::Awaitable<ModelAnswer> ask(const ReplicaRuntime& replica, std::string credential, std::size_t longest) {
  const auto endpoint = replica.state->address.get();
  if (!endpoint) co_return ModelAnswer();
  const auto executor = co_await asio::this_coro::executor;
  boost::system::error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  Stream stream(executor);
  stream.expires_after(time_limit);
  co_await stream.async_connect(*endpoint, token);
  if (error) co_return ModelAnswer();
  Question question;
  question.path = "/v1/models";
  question.credential = std::move(credential);
  const auto bytes = bytes_of(replica.settings.url, question);
  const auto to_write = asio::buffer(bytes);
  co_await asio::async_write(stream, to_write, token);
  if (error) co_return ModelAnswer();
  ListReader reader(longest);
  ReplicaAnswer answer(reader, Clock::now());
  std::vector<char> buffer(read_size + metrics::measure::StreamMeter::padding);
  const auto to_read = asio::buffer(buffer.data(), read_size);
  for (;;) {
    const auto size = co_await stream.async_read_some(to_read, token);
    if (error == asio::error::eof) answer.closed(Clock::now());
    if (error) break;
    if (answer.arrived({buffer.data(), size}, Clock::now())) break;
  }
  co_return reader.told();
}

/// What the questions of one round share; the last of them to end may outlive it.
struct QuestionRound {
  QuestionRound(const Executor& executor, std::size_t n, Tell teller)
      : timer(executor), open(n), tell(std::move(teller)) {}

  /// Ends all that is under way.
  void stop() {
    for (auto& signal : signals) signal->emit(asio::cancellation_type::terminal);
    timer.cancel();
  }

  Timer timer;
  std::size_t open;
  Tell tell;
  std::vector<std::unique_ptr<asio::cancellation_signal>> signals;
};

}  // namespace

net::Awaitable<void> ask_all(std::vector<ModelQuestion> questions, std::size_t longest, Tell tell, Halt* halt) {
  const Executor executor = co_await asio::this_coro::executor;
  const auto round = std::make_shared<QuestionRound>(executor, questions.size(), std::move(tell));
  round->timer.expires_after(time_limit);
  for (auto& question : questions) {
    const auto replica = question.replica;
    auto answered = [round, replica](const std::exception_ptr&, ModelAnswer told) {
      if (round->tell) round->tell(*replica, std::move(told));
      if (--round->open == 0) round->timer.cancel();
    };
    auto& signal = *round->signals.emplace_back(std::make_unique<asio::cancellation_signal>());
    auto stoppable = asio::bind_cancellation_slot(signal.slot(), std::move(answered));
    asio::co_spawn(executor, ask(*replica, std::move(question.credential), longest), std::move(stoppable));
  }
  if (halt != nullptr) halt->stops([round] { round->stop(); });
  boost::system::error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  const bool halted = halt != nullptr && halt->called();
  if (round->open > 0 && !halted) co_await round->timer.async_wait(token);
  round->tell = nullptr;
  if (halt != nullptr) halt->stops(nullptr);
}

}  // namespace weir::proxy::fleet
