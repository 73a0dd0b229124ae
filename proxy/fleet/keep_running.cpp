#include "proxy/fleet/keep_running.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <string>
#include <utility>

#include "proxy/events/events.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;

std::string text_of_failure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

/// A part, owned by the handlers of the events for which it waits.
class Running : public std::enable_shared_from_this<Running> {
 public:
  Running(asio::io_context& context, InternalErrors& errors, Part part, std::function<net::Awaitable<void>()> begin,
          std::chrono::milliseconds pause)
      : context_(context),
        errors_(errors),
        part_(part),
        begin_(std::move(begin)),
        pause_(pause),
        timer_(context.get_executor()) {}

  void start() {
    try {
      asio::co_spawn(context_, begin_(),
                     [self = shared_from_this()](const std::exception_ptr& failure) { self->ended(failure); });
    } catch (...) {
      ended(std::current_exception());
    }
  }

 private:
  void ended(const std::exception_ptr& failure) {
    if (!failure) return;
    note_failure(errors_, part_, failure, "it begins again");
    timer_.expires_after(pause_);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
      if (!cancelled) self->start();
    });
  }

  asio::io_context& context_;
  InternalErrors& errors_;
  const Part part_;
  const std::function<net::Awaitable<void>()> begin_;
  const std::chrono::milliseconds pause_;
  net::Timer timer_;
};

}  // namespace

void note_failure(InternalErrors& errors, Part part, const std::exception_ptr& failure,
                  std::string_view consequence) {
  if (!failure) return;
  errors.count(part);
  events::error(events::What::weir, "", "internal error ({}): {}; {}. Please report it",
                metrics::series::part_names[static_cast<std::size_t>(part)], text_of_failure(failure), consequence);
}

void keep_running(asio::io_context& context, InternalErrors& errors, Part part,
                  std::function<net::Awaitable<void>()> begin, std::chrono::milliseconds pause) {
  const auto running = std::make_shared<Running>(context, errors, part, std::move(begin), pause);
  asio::post(context, [running] { running->start(); });
}

}  // namespace weir::proxy::fleet
