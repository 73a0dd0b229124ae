#include "proxy/fleet/model_asking.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <exception>

#include "proxy/fleet/page_asking.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Executor = asio::io_context::executor_type;
using net::Timer;

constexpr std::chrono::seconds time_limit{2};

/// Asks one replica for its models.
net::Awaitable<ModelAnswer> ask(std::shared_ptr<const Replica> replica, std::string credential,
                                std::size_t longest) {
  Question question;
  question.path = "/v1/models";
  question.credential = std::move(credential);
  auto page = co_await ask_for_page(replica, question, time_limit, longest);
  ModelAnswer told;
  told.status = page.status;
  if (page.status == 200) told.entries = entries_of(page.body);
  co_return told;
}

/// The state that the questions of a round share; the last question may outlive the round.
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
  std::exception_ptr failure;  ///< The first that a question or its teller ended with.
  std::vector<std::unique_ptr<asio::cancellation_signal>> signals;
};

/// A question that stop() ended is no failure.
bool is_failure(const std::exception_ptr& ended) {
  if (!ended) return false;
  try {
    std::rethrow_exception(ended);
  } catch (const boost::system::system_error& error) {
    return error.code() != asio::error::operation_aborted;
  } catch (...) {
    return true;
  }
}

void take(QuestionRound& round, const Replica& replica, ModelAnswer told) {
  if (!round.tell) return;
  try {
    round.tell(replica, std::move(told));
  } catch (...) {
    round.failure = std::current_exception();
  }
}

}  // namespace

net::Awaitable<void> ask_all(std::vector<ModelQuestion> questions, std::size_t longest, Tell tell, Halt* halt) {
  const Executor executor = co_await asio::this_coro::executor;
  const auto round = std::make_shared<QuestionRound>(executor, questions.size(), std::move(tell));
  round->timer.expires_after(time_limit);
  for (auto& question : questions) {
    const auto replica = question.replica;
    auto answered = [round, replica](const std::exception_ptr& ended, ModelAnswer told) {
      if (is_failure(ended)) round->failure = ended;
      take(*round, *replica, std::move(told));
      if (--round->open == 0) round->timer.cancel();
    };
    auto& signal = *round->signals.emplace_back(std::make_unique<asio::cancellation_signal>());
    auto stoppable = asio::bind_cancellation_slot(signal.slot(), std::move(answered));
    asio::co_spawn(executor, ask(replica, std::move(question.credential), longest), std::move(stoppable));
  }
  if (halt != nullptr) halt->stops([round] { round->stop(); });
  boost::system::error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  const bool halted = halt != nullptr && halt->called();
  if (round->open > 0 && !halted) co_await round->timer.async_wait(token);
  round->tell = nullptr;
  if (halt != nullptr) halt->stops(nullptr);
  if (round->failure) std::rethrow_exception(round->failure);
}

}  // namespace weir::proxy::fleet
